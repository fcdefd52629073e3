// SPDX-License-Identifier: Apache-2.0
// lists.js - sessions, what is in quarantine and why, and what happened last

import { age, badge, bytes, cells, element, keyed, plural, say } from "./words.js";

const BAD = new Set(["death", "ended", "poisoned", "device-lost"]);
const commands = new Map(); // {session: [commands, when, a second]}
let marked = 0;

// Commands a second since the last look.
function rate(x, now) {
	const key = `${x.id}.${x.generation}`, before = commands.get(key);
	const since = before ? (now - before[1]) / 1000 : 0;
	const a = since > 0 ? (x.commands - before[0]) / since : before ? before[2] : null;
	commands.set(key, [x.commands, now, a]);
	return a === null ? "-" : Math.round(a);
}

function sessionCells(row, x, now) {
	const last = x.last ? `${x.last.command}: ${x.last.result}, ${age(x.last.age_ms)} ago` : "-";
	cells(row, [null, null, x.pid, [x.poisoned ? `${x.state}, poisoned` : x.state, x.state !== "attached" || x.poisoned ? "alarm" : ""],
		x.requests, x.pages.leased, [x.pages.quarantined, x.pages.quarantined ? "alarm" : ""],
		[x.waiting, x.waiting ? "alarm" : ""], x.open_points, rate(x, now), last, age(x.attached_ms)]);
	row.firstElementChild.firstElementChild.setAttribute("aria-pressed", String(marked === x.id));
}

// @mark(id): the extents of a session are to be marked, 0: of none.
export function sessions(s, now, mark) {
	if (marked && !s.sessions.some((x) => x.id === marked))
		mark(marked = 0);
	keyed(document.querySelector("#sessions tbody"), s.sessions, (x) => `${x.id}.${x.generation}`, (x) => {
		const row = element("tr"), name = element("td"), model = element("td"), button = element("button", `${x.id}.${x.generation}`, { type: "button" });
		button.addEventListener("click", () => {
			mark(marked = marked === x.id ? 0 : x.id);
			for (const b of document.querySelectorAll("#sessions button"))
				b.setAttribute("aria-pressed", String(b === button && marked !== 0));
		});
		name.append(button);
		model.append(badge(x.model.name), ` ${x.model.name}`);
		row.append(name, model);
		return row;
	}, (row, x) => sessionCells(row, x, now));
	for (const key of commands.keys())
		if (!s.sessions.some((x) => `${x.id}.${x.generation}` === key))
			commands.delete(key);
	say("sessions-title", `Sessions (${s.sessions.length})`);
}

export function classes(s) {
	keyed(document.querySelector("#classes tbody"), s.classes, (c) => c.index, () => element("tr"), (row, c) => cells(row, [c.index,
		bytes(c.page_bytes), c.form, c.extents, c.empty_extents, c.pages.total, c.pages.free, c.pages.leased,
		[c.pages.quarantined, c.pages.quarantined ? "alarm" : ""]]));
}

export function quarantine(s) {
	const list = document.getElementById("quarantine"), held = s.sessions.filter((x) => x.pages.quarantined > 0);
	list.classList.toggle("none", held.length === 0);
	keyed(list, held.length ? held : [null], (x) => x ? `${x.id}.${x.generation}` : "none", () => element("li"), (item, x) => {
		const text = !x ? "No pages are in quarantine." :
			`Session ${x.id}.${x.generation} (pid ${x.pid}, ${x.model.name}, ${x.state}): ${plural(x.pages.quarantined, "page")}` +
			`${x.ended_ms === null ? "" : `, ended ${age(x.ended_ms)} ago`}. ${x.quarantine_reason}`;
		if (item.textContent !== text)
			item.textContent = text;
	});
}

function eventText(e) {
	const whose = e.session ? ` session ${e.session}.${e.generation} (pid ${e.pid}, ${e.model})` : e.model ? ` model ${e.model}` : "";
	return `${e.event}${whose}${e.pages ? `, ${plural(e.pages, "page")}` : ""}${e.text ? `: ${e.text}` : ""}`;
}

export function events(s) {
	const list = document.getElementById("events");
	keyed(list, [...s.events].reverse(), (e) => e.number, (e) => {
		const item = element("li", undefined, { value: String(e.number + 1) });
		item.append(element("span"), element("span", ` ${eventText(e)}`, { class: BAD.has(e.event) ? "bad" : "" }));
		return item;
	}, (item, e) => {
		const text = `${age(e.age_ms)} ago:`;
		if (item.firstElementChild.textContent !== text)
			item.firstElementChild.textContent = text;
	});
}
