// SPDX-License-Identifier: Apache-2.0
// pool.js - the pool as a picture: a tile an extent, and of one extent its pages
//
// What a tile says does not lie in its colour alone: how full it is shows as a height, quarantine as stripes, whose it is
// as a letter, and what a letter has no room for is told below when the tile is chosen.

import { age, bytes, colour, element, hue, letter, plural, say } from "./words.js";

const GAP = 1;
const state = { status: null, at: 0, zoomed: false, page: 0, session: 0, listed: new Map() };

// ---- what an extent is ------------------------------------------------------------------------

function sessionOf(s, id) {
	s.byId ??= new Map(s.sessions.map((x) => [x.id, x]));
	return s.byId.get(id);
}

// The model whose pages are in extent @x: its session's, or the only one that has pages of its class.
function modelOf(s, x) {
	const session = sessionOf(s, s.map.session[x]);
	if (session)
		return session.model.name;
	const able = s.models.filter((m) => m.classes.some((c) => c.class === s.map.class[x] && c.pages > 0));
	return able.length === 1 ? able[0].name : undefined;
}

// What is drawn of each extent, and what the page says of all of them.
export function tiles(s) {
	const m = s.map;
	const flags = { shared: new Set(m.shared), emptying: new Set(m.emptying), claimed: new Set(m.claimed) };
	return m.class.map((c, x) => ({
		x, class: c, live: m.live[x], free: m.free[x], quarantined: m.quarantined[x],
		model: m.live[x] > 0 ? modelOf(s, x) : undefined, session: m.session[x], shared: flags.shared.has(x),
		emptying: flags.emptying.has(x), claimed: flags.claimed.has(x),
	}));
}

function summary(s, all) {
	const lent = all.filter((t) => t.class >= 0);
	const inUse = lent.filter((t) => t.live > 0).length, quarantined = lent.filter((t) => t.quarantined > 0).length;
	const beyond = s.map.extents - all.length;
	return `${plural(s.map.extents, "extent")} of ${bytes(2 * s.pool.bytes.extent)}: ${inUse} in use, of these ` +
		`${quarantined} with quarantined pages; ${lent.length - inUse} empty, ${all.length - lent.length} lent to no class` +
		(beyond > 0 ? `; ${beyond} are not listed` : "");
}

// First and last page, exclusive, of each run of extent @x that lies wholly in it.
function runs(s, x) {
	const c = s.classes[s.map.class[x]], extent = s.pool.bytes.extent, half = s.pool.bytes.total / 2;
	const of = c.form === "joined" ? [0, half] : [0];
	return of.map((from) => [Math.ceil((from + x * extent) / c.page_bytes),
		Math.floor((from + Math.min((x + 1) * extent, half)) / c.page_bytes)]);
}

// ---- words -------------------------------------------------------------------------------------

function waits(session) {
	const parts = [];
	if (session.waiting)
		parts.push(`${plural(session.waiting, "request or take")} waiting for pages`);
	if (session.oldest_point_ms !== null)
		parts.push(`device work open for ${age(session.oldest_point_ms)}`);
	if (session.quarantine_reason)
		parts.push(session.quarantine_reason);
	return parts.length ? parts.join("; ") : "nothing waits";
}

function who(s, id) {
	const x = sessionOf(s, id);
	if (!x)
		return "by whom is not known";
	return `session ${x.id}.${x.generation} (pid ${x.pid}, ${x.state}, model ${x.model.name}), attached for ` +
		`${age(x.attached_ms)}, oldest request ${age(x.oldest_lease_ms)} old; ${waits(x)}`;
}

function tileText(s, t) {
	if (t.class < 0)
		return `Extent ${t.x}: lent to no class${t.claimed ? "; kept for a request that has waited long" : ""}`;
	const c = s.classes[t.class];
	const marks = [t.emptying && "what lives in it is to move", t.claimed && "kept for a request that has waited long",
		t.shared && "pages of several sessions"].filter(Boolean);
	return `Extent ${t.x}: class ${t.class} (${c.form} pages of ${bytes(c.page_bytes)}), ${t.live} live, of these ` +
		`${t.quarantined} quarantined, ${t.free} free${marks.length ? "; " + marks.join("; ") : ""}` +
		(t.live > 0 ? `\nBound last ${t.session ? "by " : ""}${who(s, t.session)}` : "");
}

// ---- drawing -----------------------------------------------------------------------------------

// A canvas of @n cells as wide as its place: {context, size, columns}.
function sheet(canvas, n) {
	const width = canvas.parentElement.clientWidth - 26;
	const size = n <= 300 ? 26 : n <= 1200 ? 17 : 10;
	const columns = Math.max(1, Math.floor(width / (size + GAP))), rows = Math.ceil(n / columns), scale = devicePixelRatio || 1;
	const wide = Math.round(width * scale), high = Math.round((rows * (size + GAP) + 4) * scale);
	if (canvas.width !== wide || canvas.height !== high) {
		canvas.width = wide;
		canvas.height = high;
		canvas.style.width = `${width}px`;
		canvas.style.height = `${high / scale}px`;
	}
	const context = canvas.getContext("2d");
	context.setTransform(scale, 0, 0, scale, 2, 2);
	context.clearRect(-2, -2, width + 4, high / scale + 4);
	canvas.columns = columns;
	canvas.size = size;
	return { context, size, columns };
}

function place(sheetOf, i) {
	const step = sheetOf.size + GAP;
	return [i % sheetOf.columns * step, Math.floor(i / sheetOf.columns) * step];
}

function stripes(g, x, y, width, height, colours) {
	g.save();
	g.beginPath();
	g.rect(x, y, width, height);
	g.clip();
	g.strokeStyle = colours.alarm;
	g.lineWidth = 2;
	g.beginPath();
	for (let i = -height; i < width; i += 5) {
		g.moveTo(x + i, y + height);
		g.lineTo(x + i + height, y);
	}
	g.stroke();
	g.restore();
}

function glyph(g, text, x, y, size, colours) {
	g.font = `700 ${Math.round(size * .55)}px system-ui, "DejaVu Sans", sans-serif`;
	g.textAlign = "center";
	g.textBaseline = "middle";
	g.lineWidth = 3;
	g.strokeStyle = colours.card;
	g.strokeText(text, x + size / 2, y + size / 2 + 1);
	g.fillStyle = colours.text;
	g.fillText(text, x + size / 2, y + size / 2 + 1);
}

function drawTile(g, t, x, y, size, colours) {
	const all = t.live + t.free, high = (n) => all ? Math.max(n > 0 ? 2 : 0, Math.round(size * n / all)) : 0;
	g.globalAlpha = state.session && t.session !== state.session ? .25 : 1;
	g.lineWidth = 1;
	g.strokeStyle = colours.line;
	if (t.class < 0) {
		g.strokeRect(x + size / 2 - 1.5, y + size / 2 - 1.5, 3, 3);
	} else {
		g.fillStyle = colours.back;
		g.fillRect(x, y, size, size);
		g.fillStyle = t.model === undefined ? colours.dim : colours[t.model] ??= colour(hue(t.model));
		g.fillRect(x, y + size - high(t.live), size, high(t.live));
		if (t.quarantined > 0) {
			g.fillStyle = colours.back;
			g.fillRect(x, y + size - high(t.quarantined), size, high(t.quarantined));
			stripes(g, x, y + size - high(t.quarantined), size, high(t.quarantined), colours);
		}
		g.strokeRect(x + .5, y + .5, size - 1, size - 1);
	}
	if (size >= 16 && t.live > 0)
		glyph(g, (t.model === undefined ? "?" : letter(t.model)) + (t.shared && size > 20 ? "+" : ""), x, y, size, colours);
	if (t.claimed || t.emptying) {
		g.fillStyle = colours.text;
		g.beginPath();
		g.moveTo(x, y);
		g.lineTo(x + size * .4, y);
		g.lineTo(x, y + size * .4);
		g.fill();
	}
	g.globalAlpha = 1;
}

function frame(g, x, y, size, colours) {
	g.lineWidth = 2;
	g.strokeStyle = colours.mark;
	g.strokeRect(x - .5, y - .5, size + 1, size + 1);
}

function palette() {
	return Object.fromEntries(["back", "card", "line", "text", "dim", "mark", "alarm"].map((n) => [n, colour(`--${n}`)]));
}

function drawMap(all) {
	const canvas = document.getElementById("map"), of = sheet(canvas, all.length), colours = palette();
	all.forEach((t, i) => drawTile(of.context, t, ...place(of, i), of.size, colours));
	if (all.length)
		frame(of.context, ...place(of, state.at), of.size, colours);
}

function legend(s) {
	const rows = s.models.filter((m) => m.used_bytes > 0).map((m) => [letter(m.name), m.name]);
	const fixed = [["height", "live pages of all in the extent"], ["stripes", "quarantined"], ["dot", "lent to no class"],
		["+", "several sessions"], ["corner", "kept for somebody, or to come empty"], ["?", "whose is not known"]];
	const list = document.getElementById("legend"), text = JSON.stringify([rows, fixed]);
	if (list.dataset.text === text)
		return;
	list.dataset.text = text;
	list.replaceChildren(...[...rows, ...fixed].map(([mark, meaning]) => {
		const item = element("li"), b = element("b", mark);
		if (rows.some((r) => r[0] === mark && r[1] === meaning))
			b.style.color = `var(${hue(meaning)})`;
		item.append(b, ` ${meaning}`);
		return item;
	}));
}

// ---- the pages of one extent -----------------------------------------------------------------------

// {page: what is known of it} of all that are listed, of class @index.
function listed(s, index) {
	const found = new Map();
	for (const r of s.requests || []) {
		const session = sessionOf(s, r.session);
		for (const q of (session && r.sequences) || []) {
			if (session.model.groups[q.group].class !== index)
				continue;
			for (const [logical, page] of q.bindings || [])
				found.set(page, { session, request: r, sequence: q, logical });
		}
	}
	return found;
}

function pagesOf(s, x) {
	return runs(s, x).flatMap(([lo, hi]) => Array.from({ length: Math.max(0, hi - lo) }, (_, i) => lo + i));
}

function pageText(s, page, known) {
	if (!known)
		return `Page ${page}: in no row that is listed: free, reserved, on its way back, in quarantine, or managed by its session`;
	const { session, request, sequence, logical } = known;
	return `Page ${page}: tokens from ${logical * session.model.groups[sequence.group].page_tokens} on of slot ${sequence.slot}, ` +
		`session ${session.id}.${session.generation} (pid ${session.pid}, model ${session.model.name}); request ${request.handle}, ` +
		`${request.phase}, begun ${age(request.age_ms)} ago; ` +
		(request.open_points ? `waits for ${plural(request.open_points, "completion point")}` : "no work of it is open");
}

function drawPages(s, all) {
	const t = all[state.at], box = document.getElementById("zoom");
	box.hidden = !state.zoomed || !t || t.class < 0;
	if (box.hidden)
		return;
	const known = listed(s, t.class), pages = pagesOf(s, t.x), of = sheet(document.getElementById("pages"), pages.length);
	const colours = palette(), here = pages.filter((p) => known.has(p)).length;
	say("zoom-title", `Pages of extent ${t.x}: ${pages.length}, ${here} of them in rows that are listed; ${t.live} live, ` +
		`${t.quarantined} quarantined, ${t.free} free`);
	state.page = Math.min(state.page, Math.max(0, pages.length - 1));
	pages.forEach((p, i) => {
		const k = known.get(p), [x, y] = place(of, i), g = of.context;
		g.strokeStyle = colours.line;
		g.lineWidth = 1;
		if (k) {
			g.fillStyle = colours[k.session.model.name] ??= colour(hue(k.session.model.name));
			g.fillRect(x, y, of.size, of.size);
			if (of.size >= 16)
				glyph(g, letter(k.session.model.name), x, y, of.size, colours);
		}
		g.strokeRect(x + .5, y + .5, of.size - 1, of.size - 1);
	});
	if (pages.length) {
		frame(of.context, ...place(of, state.page), of.size, colours);
		say("page-text", pageText(s, pages[state.page], known.get(pages[state.page])));
	}
}

// ---- choosing ------------------------------------------------------------------------------------

const MOVES = { ArrowLeft: () => -1, ArrowRight: () => 1, ArrowUp: (c) => -c.columns, ArrowDown: (c) => c.columns,
	Home: () => -Infinity, End: () => Infinity };

// Where @event, of a key or the pointer, leads from @at among @n cells; undefined: nowhere.
function led(canvas, event, at, n) {
	if (event.key in MOVES)
		return Math.max(0, Math.min(n - 1, at + MOVES[event.key](canvas)));
	if (event.offsetX === undefined)
		return undefined;
	const step = canvas.size + GAP, i = Math.floor(event.offsetY / step) * canvas.columns + Math.floor(event.offsetX / step);
	return i >= 0 && i < n && event.offsetX < canvas.columns * step ? i : undefined;
}

function zoom(on, changed) {
	state.zoomed = on;
	state.page = 0;
	draw();
	changed();
}

// @changed(): it is called when more or less is to be asked of the broker.
export function listen(changed) {
	const map = document.getElementById("map"), pages = document.getElementById("pages");
	const move = (canvas, key, count) => (event) => {
		const to = state.status && led(canvas, event, state[key], count());
		if (to === undefined || to === null)
			return;
		event.preventDefault();
		state[key] = to;
		draw();
	};
	const extents = () => state.status.map.class.length;
	map.addEventListener("keydown", move(map, "at", extents));
	map.addEventListener("mousemove", (e) => state.zoomed || move(map, "at", extents)(e));
	map.addEventListener("click", (e) => { move(map, "at", extents)(e); zoom(true, changed); });
	map.addEventListener("keydown", (e) => e.key === "Enter" && zoom(!state.zoomed, changed));
	pages.addEventListener("keydown", move(pages, "page", () => pagesOf(state.status, state.at).length));
	pages.addEventListener("mousemove", move(pages, "page", () => pagesOf(state.status, state.at).length));
	for (const c of [map, pages])
		c.addEventListener("keydown", (e) => {
			if (e.key !== "Escape")
				return;
			zoom(false, changed);
			map.focus();
		});
	addEventListener("resize", draw);
}

export function isZoomed() {
	return state.zoomed;
}

// Marks the extents of session @id, 0: of none.
export function mark(id) {
	state.session = id;
	draw();
}

export function draw() {
	const s = state.status;
	if (!s || !s.map)
		return;
	const all = tiles(s);
	state.at = Math.min(state.at, Math.max(0, all.length - 1));
	drawMap(all);
	legend(s);
	say("map-summary", summary(s, all));
	if (all.length)
		say("tile", tileText(s, all[state.at]));
	drawPages(s, all);
}

export function show(s) {
	state.status = s;
	draw();
}
