// SPDX-License-Identifier: Apache-2.0
// words.js - numbers as words, models as letters, and elements that keep their place

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(n) {
	let unit = 0;
	for (; n >= 1024 && unit < UNITS.length - 1; unit++)
		n /= 1024;
	return `${unit ? n.toFixed(n < 10 ? 2 : 1) : n} ${UNITS[unit]}`;
}

export function age(ms) {
	if (ms === null || ms === undefined)
		return "-";
	const s = Math.floor(ms / 1000);
	if (s < 1)
		return `${ms} ms`;
	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)}m${String(s % 60).padStart(2, "0")}s`;
	return s < 86400 ? `${Math.floor(s / 3600)}h${String(Math.floor(s / 60) % 60).padStart(2, "0")}m` : `${Math.floor(s / 86400)}d`;
}

export function plural(n, word) {
	return `${n} ${word}${n === 1 ? "" : "s"}`;
}

// A model keeps its letter and colour for as long as the page is open; letters tell apart what has the same colour.
const letters = new Map();

export function meet(models) {
	for (const name of models.map((m) => m.name).sort())
		if (!letters.has(name))
			letters.set(name, letters.size);
}

export function letter(name) {
	const n = letters.get(name);
	if (n === undefined)
		return "?";
	return String.fromCharCode(65 + n % 26) + (n < 26 ? "" : Math.floor(n / 26));
}

export function hue(name) {
	const n = letters.get(name);
	return n === undefined ? "--dim" : `--model-${n % 8}`;
}

// Canvases ask for the colour itself.
export function colour(variable) {
	return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

export function element(name, text, attributes = {}) {
	const e = document.createElement(name);
	if (text !== undefined)
		e.textContent = text;
	for (const [key, value] of Object.entries(attributes))
		e.setAttribute(key, value);
	return e;
}

export function badge(name) {
	const b = element("span", letter(name), { class: "badge" });
	b.style.color = `var(${hue(name)})`;
	return b;
}

export function say(id, text) {
	const e = document.getElementById(id);
	if (e.textContent !== text)
		e.textContent = text;
}

// Makes the children of @parent those of @items, in order, with one element for each key from one call to the next: what has
// the focus keeps it. @make(item) makes an element, @fill(element, item) brings it up to date.
export function keyed(parent, items, key, make, fill) {
	const there = new Map([...parent.children].map((e) => [e.dataset.key, e]));
	let at = parent.firstElementChild;
	for (const item of items) {
		const k = String(key(item));
		let e = there.get(k);
		if (!e) {
			e = make(item);
			e.dataset.key = k;
		}
		there.delete(k);
		fill(e, item);
		if (e === at)
			at = at.nextElementSibling;
		else
			parent.insertBefore(e, at);
	}
	for (const e of there.values())
		e.remove();
}

// Cells of a row; a cell is a text, or [text, class].
export function cells(row, texts) {
	while (row.children.length < texts.length)
		row.append(element("td"));
	texts.forEach((t, i) => {
		const [text, name] = Array.isArray(t) ? t : [t, ""];
		const cell = row.children[i];
		if (text !== null && cell.textContent !== String(text))
			cell.textContent = text;
		if (cell.className !== name)
			cell.className = name;
	});
}
