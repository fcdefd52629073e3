// SPDX-License-Identifier: Apache-2.0
// lines.js - each model's floor, ceiling, use and waiting over the last minutes

import { badge, bytes, element, hue, keyed, age, plural } from "./words.js";

const WIDTH = 340, HEIGHT = 104, LEFT = 4, BOTTOM = 84, TOP = 14, MINUTES = 5;
const SPANS = [1, 2, MINUTES];
const history = new Map(); // {name: [{at, used, floor, ceiling, waiting}]}

function svg(name, attributes, text) {
	const e = document.createElementNS("http://www.w3.org/2000/svg", name);
	for (const [key, value] of Object.entries(attributes))
		e.setAttribute(key, value);
	if (text !== undefined)
		e.textContent = text;
	return e;
}

export function remember(models, now) {
	const names = new Set(models.map((m) => m.name));
	for (const m of models) {
		const of = history.get(m.name) ?? [];
		of.push({ at: now, used: m.used_bytes, floor: m.floor_bytes, ceiling: m.ceiling_bytes, waiting: m.waiting });
		while (of[0].at < now - MINUTES * 60000)
			of.shift();
		history.set(m.name, of);
	}
	for (const name of history.keys())
		if (!names.has(name))
			history.delete(name);
}

function picture(name, of, total) {
	const most = Math.max(1, ...of.map((p) => Math.max(p.used, p.floor, p.ceiling ?? 0)));
	const top = most > total * .5 ? total : most * 1.15, now = of[of.length - 1].at;
	const minutes = SPANS.find((m) => now - of[0].at <= m * 60000) ?? MINUTES, span = minutes * 60000;
	const x = (p) => LEFT + (WIDTH - LEFT) * (1 - (now - p.at) / span), y = (n) => BOTTOM - (BOTTOM - TOP) * Math.min(1, n / top);
	const path = (key) => of.filter((p) => p[key] !== null).map((p, i) => `${i ? "L" : "M"}${x(p).toFixed(1)} ${y(p[key]).toFixed(1)}`).join("");
	const last = of[of.length - 1], waiting = Math.max(...of.map((p) => p.waiting));
	const s = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", preserveAspectRatio: "none" });
	s.append(svg("title", {}, `${name}: used ${bytes(last.used)}, floor ${bytes(last.floor)}, ceiling ` +
		`${last.ceiling === null ? "none" : bytes(last.ceiling)}, ${last.waiting} waiting, at most ${waiting} in these minutes`));
	s.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: BOTTOM, y2: BOTTOM }));
	s.append(svg("text", { x: LEFT, y: TOP - 4 }, bytes(Math.round(top))), svg("text", { x: LEFT, y: HEIGHT - 1 }, `-${minutes} min`),
		svg("text", { x: WIDTH, y: HEIGHT - 1, "text-anchor": "end" }, "now"));
	for (const limit of ["ceiling", "floor"])
		if (last[limit])
			s.append(svg("path", { class: limit, d: path(limit) }),
				svg("text", { x: LEFT, y: y(last[limit]) - 3 }, limit));
	const used = svg("path", { class: "used", d: path("used") });
	used.style.stroke = `var(${hue(name)})`;
	s.append(used);
	for (const p of of.filter((q) => q.waiting > 0)) {
		const high = 3 + 9 * p.waiting / waiting;
		s.append(svg("rect", { class: "waiting", x: (x(p) - 1).toFixed(1), y: (BOTTOM + 1).toFixed(1), width: 2, height: high.toFixed(1) }));
	}
	return s;
}

function words(m) {
	const parts = [`used ${bytes(m.used_bytes)}`, `floor ${bytes(m.floor_bytes)}`,
		`ceiling ${m.ceiling_bytes === null ? "none" : bytes(m.ceiling_bytes)}`, plural(m.sessions, "session"), `${m.waiting} waiting`];
	if (m.oldest_wait_ms !== null)
		parts.push(`the first for ${age(m.oldest_wait_ms)}${m.claims ? ", pages are kept for it" : ""}`);
	if (m.drained)
		parts.push("drained");
	return parts.join(", ");
}

export function show(s) {
	keyed(document.getElementById("models"), s.models, (m) => m.name, (m) => {
		const box = element("div", undefined, { class: "model" }), title = element("h3");
		title.append(badge(m.name), ` ${m.name}`);
		box.append(title, element("p"), element("div"));
		return box;
	}, (box, m) => {
		if (box.children[1].textContent !== words(m))
			box.children[1].textContent = words(m);
		box.children[2].replaceChildren(picture(m.name, history.get(m.name), s.pool.bytes.total));
	});
}
