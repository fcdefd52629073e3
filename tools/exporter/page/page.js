// SPDX-License-Identifier: Apache-2.0
// page.js - asks the exporter again and again, and shows what it says

import * as lines from "./lines.js";
import * as lists from "./lists.js";
import * as pool from "./pool.js";
import { age, bytes, meet, plural, say } from "./words.js";

const EVERY_MS = 1000, HIDDEN_MS = 5000;
const THEMES = ["system", "light", "dark"];
let timer, paused = false, asked = 0;

function trouble(text) {
	const box = document.getElementById("trouble");
	box.hidden = !text;
	say("trouble", text);
}

function broker(s) {
	const verdict = document.getElementById("verdict"), pages = s.pool && s.pool.bytes;
	document.title = `${s.status === "running" ? "" : `${s.status}: `}swakv ${s.instance}`;
	say("instance", s.instance);
	verdict.className = s.status === "running" && !s.device_lost_ms ? "good" : "bad";
	say("verdict", `${s.status}${s.device_lost_ms ? `, device lost ${age(s.device_lost_ms)} ago` : ""}`);
	say("broker", s.pid === undefined ? "" : `version ${s.version}, pid ${s.pid}, ${s.backend} ${s.device}, up ${age(s.uptime_ms)}`);
	const wrong = s.invariant && !s.invariant.holds ? `Counts do not add up: ${s.invariant.violation}` : "";
	trouble([s.reason, s.hint && `What to do: ${s.hint}`, wrong].filter(Boolean).join("\n"));
	if (pages)
		say("pool-numbers", `${bytes(pages.total)}: ${bytes(pages.held)} lent as pages, ${bytes(pages.free)} free, ` +
			`${bytes(pages.unusable)} unusable. ${plural(s.counters.commands, "command")}, ${s.counters.deaths} died, ` +
			`${s.counters.rescues} rescues.`);
}

function show(s) {
	const now = performance.now();

	meet(s.models ?? []);
	broker(s);
	if (!s.map)
		return; // nobody's pages: what was there stays in sight, below what is wrong
	lines.remember(s.models, now);
	pool.show(s);
	lists.classes(s);
	lines.show(s);
	lists.sessions(s, now, pool.mark);
	lists.quarantine(s);
	lists.events(s);
	document.documentElement.dataset.snapshot = s.snapshot; /* for tests: what is shown, and what showing it took */
	document.documentElement.dataset.tookMs = performance.now() - now;
}

async function ask() {
	const number = ++asked;

	clearTimeout(timer);
	try {
		const answer = await fetch(`api/status?map${pool.isZoomed() ? "&requests" : ""}`, { signal: AbortSignal.timeout(10000) });
		if (!answer.ok)
			throw new Error(`${answer.status} ${answer.statusText}`);
		const s = await answer.json();
		if (number === asked)
			show(s);
	} catch (error) {
		if (number === asked)
			trouble(`The exporter does not answer (${error.message}): what is below is old.`);
	}
	if (number === asked && !paused)
		timer = setTimeout(ask, document.hidden ? HIDDEN_MS : EVERY_MS);
}

function pause() {
	paused = !paused;
	document.getElementById("pause").setAttribute("aria-pressed", String(paused));
	say("pause", paused ? "Go on" : "Pause");
	clearTimeout(timer);
	if (paused)
		asked++; // an answer under way is not shown any more
	else
		ask();
}

// ---- dark and light ---------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = 0;

function paint() {
	const name = THEMES[theme] === "system" ? (dark.matches ? "dark" : "light") : THEMES[theme];
	document.documentElement.dataset.theme = name;
	say("theme", `Theme: ${THEMES[theme]}`);
	pool.draw();
}

function nextTheme() {
	theme = (theme + 1) % THEMES.length;
	paint();
}

document.getElementById("pause").addEventListener("click", pause);
document.getElementById("theme").addEventListener("click", nextTheme);
document.addEventListener("keydown", (e) => {
	if (e.ctrlKey || e.metaKey || e.altKey)
		return;
	if (e.key === "p")
		pause();
	else if (e.key === "t")
		nextTheme();
});
document.addEventListener("visibilitychange", () => document.hidden || paused || ask());
dark.addEventListener("change", paint);
paint();
pool.listen(ask);
ask();
