# SPDX-License-Identifier: Apache-2.0
"""Faults put into the page engine on purpose: each must be found by the random test.

A mutation is a name, a file of broker/engine, and exact replacements in it:
(old text, new text), where the old text occurs exactly once; a third part names
another file than the mutation's.
"""

MUTATIONS = [
    ("retained_begin one page late", "window.h", [
        ("return e > w->tokens ? (int32_t)((e - w->tokens) >> w->shift) : 0;",
         "return e > w->tokens ? (int32_t)((e - w->tokens) >> w->shift) + 1 : 0;")]),
    ("retained_end one page short", "window.h", [
        ("return (int32_t)((e + w->per_page - 1) >> w->shift);\n}\n\n/* First logical",
         "return (int32_t)((e + w->per_page - 1) >> w->shift) - 1;\n}\n\n/* First logical")]),
    ("window start off by one token", "window.h", [
        ("return e > w->tokens ? (int32_t)((e - w->tokens) >> w->shift) : 0;",
         "return e > w->tokens ? (int32_t)((e - w->tokens - 1) >> w->shift) : 0;")]),
    ("reservation one page short", "window.h", [
        ("return m >= width ? width : (int32_t)(2 * m + 1 < width ? 2 * m + 1 : width);",
         "return m >= width ? width : (int32_t)(2 * m < width ? 2 * m : width);")]),
    ("own page returned to another owner early", "sequence.c", [
        ("bool waits = !l->through && (r->unordered || seq_span(g, q)->n_extra > 0);",
         "bool waits = !l->through && r->unordered;")]),
    ("own page waits for the point", "sequence.c", [
        ("bool waits = !l->through && (r->unordered || seq_span(g, q)->n_extra > 0);",
         "bool waits = !l->through;")]),
    ("a stream without order is taken for one with", "sequence.c", [
        ("bool waits = !l->through && (r->unordered || seq_span(g, q)->n_extra > 0);",
         "bool waits = !l->through && seq_span(g, q)->n_extra > 0;")]),
    ("extras returned at complete without the point", "sequence.c", [
        ("\tl->through = last <= s->lines[r->stream].reached;\n", "\tl->through = true;\n")]),
    ("wrong last_value: that of the step which leaves the page", "sequence.c", [
        ("uint64_t last = value > r->last_value ? value : r->last_value;", "uint64_t last = value;")]),
    ("wrong last_value: extras are filed under the step's own value", "fence.c", [
        ("\t\tpoint_open(s, r->stream, r->last_value, r, &l->staged);\n",
         "\t\tpoint_open(s, r->stream, p->value > s->lines[r->stream].reached ? p->value : r->last_value, r, "
         "&l->staged);\n")]),
    ("wrong last_value: a smaller one takes its place", "fence.c", [
        ("\tif (p->value > r->last_value)\n\t\tr->last_value = p->value;\n", "\tr->last_value = p->value;\n")]),
    ("rejected page lost", "sequence.c", [
        ("\t\tseq_reserved(g, q)[p->n_reserved++] = page;\n",
         "\t\tif (page % 64 != 63)\n\t\t\tseq_reserved(g, q)[p->n_reserved++] = page;\n")]),
    ("a scrub covers pages that an earlier step may read", "dirty.c", [
        ("delivery_scrub(d, group_row(g, q->slot), dirty, end);",
         "delivery_scrub(d, group_row(g, q->slot), first, end);")]),
    ("the order of a request's stream is forgotten", "begin.c", [
        ("\tr->unordered = b->unordered;\n", "")]),
    ("a begin that waited forgets that its stream has no order", "wait.c", [
        ("\t\t.unordered = w->unordered,\n", "")]),
    ("a point is reached one value early", "points.c", [
        ("s->points[l->first_point].value <= word", "s->points[l->first_point].value <= word + 1")]),
    ("a point is reached one value late", "points.c", [
        ("s->points[l->first_point].value <= word", "s->points[l->first_point].value < word")]),
    ("who shares a point does not count", "shared_point.h", [
        ("\tp->n_members++;\n\ts->n_points++;\n", "\tp->n_members++;\n")]),
    ("a value that was shared before is one that the request has", "points.c", [
        ("shared_point_has(s, r, value)))", "value <= s->lines[r->stream].shared_value))")]),
    ("page retired at prepare instead of complete", "decode.c", [
        ("\t\t\t\tbind_next(s, g, r, q, d);\n",
         "\t\t\t\tbind_next(s, g, r, q, d);\n"
         "\t\t\tif (seq_retained_begin(g, q, e) > seq_span(g, q)->begin)\n"
         "\t\t\t\tpage_table_put(&g->table, q->slot, seq_span(g, q)->begin, -1);\n")]),
    ("clear of a retired page not sent", "page_table.c", [
        ("\t\tif (page == sent[c])\n", "\t\tif (page == sent[c] || page < 0)\n")]),
    ("rows of ended requests not sent", "delivery.c", [
        ("\tcollect_list(s, &s->lines[r->stream].stray, d);\n", "")]),
    ("rows of ended requests sent on any stream", "delivery.c", [
        ("collect_list(s, &s->lines[r->stream].stray, d);", "collect_list(s, &s->lines[0].stray, d);")]),
    ("LIFO to FIFO", "decode.c", [
        ("\tpage = seq_reserved(g, q)[--p->n_reserved];\n",
         "\tpage = seq_reserved(g, q)[0];\n\tp->n_reserved--;\n"
         "\tfor (int32_t i = 0; i < p->n_reserved; i++)\n"
         "\t\tseq_reserved(g, q)[i] = seq_reserved(g, q)[i + 1];\n")]),
    ("a chunk takes the last of its pages first", "sequence.c", [
        ("\t\tpage_table_put_run(&g->table, q->slot, c, seq_reserved(g, q) + p->n_reserved, part);\n",
         "\t\tpage_table_put_run(&g->table, q->slot, c, seq_reserved(g, q) + part, part);\n"
         "\t\tfor (int32_t i = part; i < p->n_reserved; i++)\n"
         "\t\t\tseq_reserved(g, q)[i - part] = seq_reserved(g, q)[i];\n")]),
    ("compaction drops the wrong sequence", "compact.c", [
        ("\t\trequest_seq(s, r, i)->map = old_to_new[i];\n",
         "\t\trequest_seq(s, r, i)->map = old_to_new[n - 1 - i];\n")]),
    ("compaction with moved rows keeps the slots", "compact.c", [
        ("\tif (r->move_rows)\n", "\tif (r->move_rows && r->n_seqs > 2)\n")]),
    ("row not cleared when its slot is given up", "request.c", [
        ("\tif (s->ended)\n\t\treturn;\n\tpage_table_open", "\tif (!s->ended)\n\t\treturn;\n\tpage_table_open")]),
    ("a refused begin takes one page", "admission.c", [
        ("\tif (!limited)\n\t\treturn fault_set(f, FAULT_NO_PAGES",
         "\tif (!limited && need[missing].class->n_free > 0)\n\t\tpage_class_take(need[missing].class);\n"
         "\tif (!limited)\n\t\treturn fault_set(f, FAULT_NO_PAGES")]),
    ("a refused prefill leaves the request executing", "prefill.c", [
        ("\t\tif (lengths[i] < 1 || lengths[i] > r->capacity)\n",
         "\t\tif (lengths[i] > r->capacity)\n\t\t\t((struct request *)r)->phase = PHASE_EXECUTING;\n"
         "\tfor (uint32_t i = 0; i < n; i++)\n"
         "\t\tif (lengths[i] < 1 || lengths[i] > r->capacity)\n")]),
    ("poison spreads to another session", "request.c", [
        ("\ts->poisoned = true;\n",
         "\tstruct session *other;\n\n"
         "\tLIST_FOREACH(other, &s->engine->sessions, siblings)\n\t\tother->poisoned = true;\n")]),
    ("poison is lifted although a stream failed again", "quarantine.c", [
        ("return fault_set(f, FAULT_STILL_POISONED, -1, session_quarantined(s), 0);", "return 0;")]),
    ("V base one page off", "page_table.h", [
        ("k[t->v_column] = page < 0 ? -1 : page + t->v_more;",
         "k[t->v_column] = page < 0 ? -1 : page + t->v_more - 1;")]),
    ("a row's version does not count", "page_table.c", [
        ("uint32_t version = load_relaxed(&t->heads[row].version) + 1;",
         "uint32_t version = load_relaxed(&t->heads[row].version) + (d->n_rows == 0);")]),
    ("finish does not wait for the open points", "request.c", [
        ("\tvalue = p.value > r->last_value ? p.value : r->last_value;\n", "\tvalue = p.value;\n")]),
    ("a slot behind an open point is free for other streams", "begin.c", [
        ("\t\tif (t->line != stream && s->lines[t->line].reached < t->value)\n",
         "\t\tif (t->line != stream && s->lines[t->line].reached + 1 < t->value)\n")]),
    ("a fence above the armed value is taken", "fence.c", [
        ("if (fence->value > armed)", "if (fence->value > armed + 1)")]),
    ("the limit is one token early", "decode.c", [
        ("\tif (e > r->capacity)\n\t\treturn SWAKV_ELIMIT;", "\tif (e >= r->capacity)\n\t\treturn SWAKV_ELIMIT;")]),
    ("the batch moves on although one sequence is at its limit", "decode.c", [
        ("\t\tworst = code ? code : worst;\n", "\t\tworst = i == 0 ? code : worst;\n")]),
    ("a step looks at the wrong sequences", "agenda.c", [
        ("seqs[heap[child + 1]].due < seqs[heap[child]].due",
         "seqs[heap[child + 1]].due > seqs[heap[child]].due")]),
    ("what is due at a step is not put in order again", "agenda.c", [
        ("\twhile (n-- > 0) {\n", "\twhile (n-- > 1) {\n")]),
    ("a generation is reused", "begin.c", [
        ("\tt->generation++;\n", "\tt->generation |= 1;\n")]),
    ("reclaim forgets the pages behind points", "quarantine.c", [
        ("\t\tpages_quarantine(s, line, &chains);\n\t\tpoint_close(s, p)", "\t\tpoint_close(s, p)")]),
    ("an extent that was taken needlessly", "provision.c", [
        ("\tif (c->n_free >= n)\n\t\treturn;\n\tv.index", "\tif (c->n_free >= ++n)\n\t\treturn;\n\tv.index")]),
    ("an extent is returned with a live page", "extents.c", [
        ("if (!others || p->extents[x].n_live > 0)", "if (!others || p->extents[x].n_live > 1)", "available.c"),
        ("\tMUST(e->n_live == 0 && !e->choice);\n", "\te->n_live = 0;\n")]),
    ("a page that ends in a second extent keeps only the first", "free_stack.c", [
        ("while (++x <= last)", "while (++x < last)")]),
    ("an empty extent of another class does not count as available", "available.c", [
        ("extents_next_stretch(p, x, index, true, &first)", "extents_next_stretch(p, x, index, false, &first)")]),
    ("pages of an extent that another class had are clean", "provision.c", [
        ("if (e->former != 0 && e->former != index + 1)", "if (e->former == EXTENT_OF_MANY)")]),
    ("a page across two extents is used with one", "split_joined.c", [
        ("*hi = (int32_t)(b / c->page_bytes);", "*hi = (int32_t)((b + c->page_bytes / 2) / c->page_bytes);")]),
    ("of two straddlers none is owed as long as one page may go", "free_stack.c", [
        ("there > e->n_free; r++", "there > e->n_free && e->n_free == 0; r++")]),
    ("the page over the middle is used", "split_joined.c", [
        ("return byte % c->page_bytes && page >= c->runs[run].first && page < c->runs[run].end ? page : -1;",
         "return byte % c->page_bytes && page < c->num_pages ? page : -1;"),
        ("\tif (page_is_middle(c, page))\n\t\treturn false;\n", "")]),
    ("one update too few travels in a reply", "page_table.c", [
        ("d->n_updates == WIRE_MAX_INLINE_UPDATES", "d->n_updates == WIRE_MAX_INLINE_UPDATES - 1")]),
    ("a row by reference is not named", "page_table.c", [
        ("\tif (changed)\n", "\tif (changed && !(d->flags && d->n_rows > 9))\n")]),
    ("a duplicate slot is admitted", "begin.c", [
        ("\t\tif (s->slots[slots[seen]].seen)\n", "\t\tif (s->slots[slots[seen]].seen && n > 2)\n")]),
    ("a page of another session counts as clean", "dirty.h", [
        ("return (anew || former != serial) &&", "return (anew || (former != serial && former + 1 != serial)) &&")]),
    ("a page stays dirty after it was scrubbed", "dirty.h", [
        ("\tc->user[page] = serial;\n", "\tif (former == PAGE_FRESH)\n\t\tc->user[page] = serial;\n")]),
    ("a page that was never bound forgets its user", "free_stack.c", [
        ("\tput_strip(c, e, (struct strip){ page, 1, false });\n",
         "\tif (page % 5 == 0)\n\t\tc->user[page] = PAGE_FRESH;\n\tput_strip(c, e, (struct strip){ page, 1, false });\n")]),
    ("two groups have one name", "group.c", [
        ("\tg->serial = ++s->engine->last_serial;\n", "\tg->serial = 1 + ++s->engine->last_serial % 2;\n")]),
    ("always does not mean always", "dirty.c", [
        ("if (c->user[pages[i]] != PAGE_FRESH)", "if (c->user[pages[i]] != PAGE_FRESH && pages[i] % 3)")]),
    ("a scrub names one column too few", "sequence.c", [
        ("dirty_tell(s, g, q, first, end, d);", "dirty_tell(s, g, q, first, end - 1, d);")]),
    # layer groups
    ("the window of another group is used", "group.c", [
        ("&s->model.groups[g->index];\n\tsize_t", "&s->model.groups[0];\n\tsize_t")]),
    ("cells are counted within their group", "group.c", [
        ("\t\tg->table.first_cell = cell;\n", "\t\tg->table.first_cell = 0;\n")]),
    ("one group is admitted only", "begin.c", [
        ("\t\tint32_t n = r->reservation[g->index];\n",
         "\t\tint32_t n = g->index ? 0 : r->reservation[0];\n")]),
    ("a begin looks for pages of one group only", "begin.c", [
        ("\t\tneeds[g->index] = (int64_t)reservation[g->index] * b->n_slots;\n",
         "\t\tneeds[g->index] = g->index ? 0 : (int64_t)reservation[g->index] * b->n_slots;\n")]),
    ("a reserve of one group only", "reserve.c", [
        ("\t\tmore[i] = group_reservation(s, g, max_tokens, r->unordered) - r->reservation[i];\n",
         "\t\tmore[i] = i ? 0 : group_reservation(s, g, max_tokens, r->unordered) - r->reservation[i];\n")]),
    ("pages of a later group do not come back at a point", "points.c", [
        ("\t\t} else {\n\t\t\tchain_give_back(s, g, chain);\n",
         "\t\t} else if (g->index < 2) {\n\t\t\tchain_give_back(s, g, chain);\n")]),
    ("a class breaks its promise to another group", "available.c", [
        ("return holder->promised == 0 || holder->n_free - pages_lost(p, holder, x) >= holder->promised;",
         "return holder->promised >= 0;")]),
    # reservations
    ("the bound of max_advance is one page short", "window.h", [
        ("\treturn span + 1 < width ? (int32_t)span + 1 : width;\n",
         "\treturn span < width ? (int32_t)span : width;\n")]),
    ("max_rewind does not count in a reservation", "model.c", [
        ("window_kept(g->window, m->max_rewind, g->page_tokens)", "window_kept(g->window, 0, g->page_tokens)")]),
    ("steps in flight cost pages", "group.c", [
        ("unordered ? m->in_flight : 1)", "m->in_flight)")]),
    ("extra pages are kept", "sequence.c", [
        ("\tif (p->n_extra > 0) {\n\t\tp->n_extra--;", "\tif (p->n_extra > 1) {\n\t\tp->n_extra--;")]),
    ("a step that lacks pages waits for ever", "extend.c", [
        ("if (is_reserved_for(s, tokens) || lack <= p->n_staged)",
         "if (is_reserved_for(s, tokens) || lack <= 1 + p->n_staged)")]),
    ("a step takes pages although it would only have to wait", "extend.c", [
        ("if (is_reserved_for(s, tokens) || lack <= p->n_staged)", "if (is_reserved_for(s, tokens) || lack < p->n_staged)")]),
    ("asked between prepare and complete, the range is that of the settled endpoint", "query.c", [
        (".retained_begin = p->begin,", ".retained_begin = span->begin,")]),
    ("asked between prepare and complete, the end is that of the settled endpoint", "query.c", [
        (".retained_end = p->hi,", ".retained_end = span->end,")]),
    # extend
    ("a mapped chunk binds its final window only", "sequence.c", [
        ("int32_t begin = s->model.chunk_mapped ? p->begin : seq_retained_begin(g, q, e);",
         "int32_t begin = seq_retained_begin(g, q, e);")]),
    ("a part of a step is accepted without clearing the tail", "sequence.c", [
        ("\tseq_unbind(s, g, r, q, end > m.resume ? end : m.resume, m.hi, l);\n", "")]),
    ("a part of a step is accepted where all must stay", "extend.c", [
        ("if (n < tokens && !s->model.chunk_mapped)", "if (n + 1 < tokens && !s->model.chunk_mapped)")]),
    ("none of a step accepted means all of it", "extend.c", [
        ("return !accepted->of && accepted->each == 0 ? tokens : count_of(accepted, i);",
         "return count_of(accepted, i) == 0 ? tokens : count_of(accepted, i);")]),
    ("an entry reads the counts of the one before", "decode.c", [
        ("\t\tat += step_listed(step->entries[i].tokens);\n", "\t\tat += step_listed(step->entries[i].tokens) / 2;\n")]),
    # rewind
    ("the rewind bound counts from the endpoint at each call", "rewind.c", [
        ("e - tokens[i] < seq_high(r, q) - (int64_t)s->model.max_rewind", "tokens[i] > (int64_t)s->model.max_rewind")]),
    ("steps inside a page do not raise the highest endpoint", "sequence.h", [
        ("\treturn e > q->high ? e : q->high;\n", "\treturn q->high;\n")]),
    ("begin falls after a rewind", "sequence.h", [
        ("return window_begin(&g->window, e > q->high ? e : q->high);", "return window_begin(&g->window, e);")]),
    ("rewound extras return before the last point", "rewind.c", [
        ("\tleaving_init(s, r, 0, &leaving);\n", "\tleaving_init(s, r, 0, &leaving);\n\tleaving.through = true;\n")]),
    # pages that a session manages itself
    ("a page that somebody else holds can be given", "managed.c", [
        ("<= g->class->num_pages - s.n && strip_is_set(g->managed, s);",
         "<= g->class->num_pages - s.n &&\n\t\t"
         "(s.n > 1 ? strip_is_set(g->managed, s) : g->class->state[s.first] == PAGE_LEASED);")]),
    ("a page that is given twice is taken once", "managed.c", [
        ("\t\tif (!is_managed(g, strip)) {\n",
         "\t\tif (!is_managed(g, strip) && !(i > 0 && strip.first == give->ids[0])) {\n")]),
    ("a give that is refused keeps what came before", "managed.c", [
        ("\t\t\tundo_given(s, g, give->ids, i);\n", "")]),
    ("given pages are free before their point", "managed.c", [
        ("else if (!r.reached)", "else if (!r.reached && r.value > s->lines[line].reached + 1)")]),
    ("given pages are free at the first of their points", "points.c", [
        ("\t\tp->beside = first->beside;\n\t\tfirst->beside = (int32_t)(p - s->points);\n", "\t\t(void)p;\n")]),
    ("a give to a poisoned session is free at once", "managed.c", [
        ("\tfailed = p.failed || s->poisoned;\n", "\tfailed = p.failed;\n")]),
    ("a take ignores the floors of others", "managed.c", [
        ("\treturn session_provide(s, needs, NULL, CLAIMS_ALL, f);\n",
         "\tif (s->groups[group].class->n_free >= n)\n\t\treturn 0;\n"
         "\treturn session_provide(s, needs, NULL, CLAIMS_ALL, f);\n")]),
    ("a take gets fewer pages than there are", "managed.c", [
        ("most < t->max ? most : t->max - 1", "most < t->max ? most - 1 : t->max - 1")]),
    ("a take of what the session had last is never scrubbed, whoever had it since", "dirty.c", [
        ("} else if (page_is_dirty(c, former, serial, anew)) {",
         "} else if (anew && page_is_dirty(c, former, serial, anew)) {")]),
    ("of neighbours all are as clean as the first", "dirty.c", [
        ("if (strip_count(user, s.n, former, 0) < s.n) {", "if (s.n > c->num_pages) {")]),
    ("a take that does not overwrite is not scrubbed of its own pages", "managed.c", [
        ("g->serial, !(flags & WIRE_TAKE_OVERWRITES), ids", "g->serial, false, ids")]),
    ("pages of a take beyond its first word are nobody's", "strip.h", [
        ("\tfor (int32_t n; s.n > 0; s.first += n, s.n -= n)\n\t\tbits[(uint32_t)s.first / STRIP_WORD] |=",
         "\tfor (int32_t n, first = s.first; s.first == first; s.first += n)\n\t\tbits[(uint32_t)s.first / STRIP_WORD] |=")]),
    ("a take overtakes one that waits", "managed.c", [
        ("bool in_turn = !wait_holds_up(s->quota);", "bool in_turn = true;")]),
    ("who is at its model's floor is asked for pages", "press.c", [
        ("q->above = q->above_left = used > q->floor ? used - q->floor : 0;", "q->above = q->above_left = used;")]),
    ("who lacks pages is asked for those of others", "press.c", [
        ("return !s->ended && s->n_waits == 0;", "return !s->ended;")]),
    ("who was refused pages is asked for those that it uses", "press.c", [
        ("\tif (!was_refused(s))", "\tif (true)"),
        ("was_refused(s) && most > g->offered", "false")]),
    ("a want outlives its cause", "press.c", [
        ("\tg->wanted = g->asked;\n", "\tg->wanted = g->asked > g->wanted ? g->asked : g->wanted;\n")]),
    # limits, and begins that wait
    ("a floor is not honoured", "floor_ceiling.c", [
        ("\tif (q->floor > used)\n", "\tif (q->floor > used && q->ceiling)\n")]),
    ("a floor is kept for its own model, too", "floor_ceiling.c", [
        ("\t\tif (q != own)\n\t\t\tadd_floor", "\t\tadd_floor")]),
    ("a ceiling does not count what is held", "admission.c", [
        ("if (!q->ceiling || used + bytes <= q->ceiling)", "if (!q->ceiling || bytes <= q->ceiling)")]),
    ("a model's ceiling is that of one session", "quota.c", [
        ("\tLIST_FOREACH (s, &q->sessions, sharers)\n\t\tFOR_EACH_GROUP (g, s)\n",
         "\ts = LIST_FIRST(&q->sessions);\n\tif (s)\n\t\tFOR_EACH_GROUP (g, s)\n")]),
    ("a request above its ceiling is told to come again", "admission.c", [
        ("if (ceiling && bytes > ceiling)", "if (ceiling && bytes > 2 * ceiling)")]),
    ("free pages are not kept for a claim", "floor_ceiling.c", [
        ("\tif (claims && e->n_claims)\n\t\tclaims_keep", "\tif (claims && e->n_claims > 1)\n\t\tclaims_keep")]),
    ("what comes free in a chosen extent is open to all", "free_stack.c", [
        ("\tc->n_free -= n;\n\tc->n_withheld += n;\n", "")]),
    ("a claim outlives its begin", "wait.c", [
        ("\tif (q->claim.of == w)\n\t\tclaim_end(e, q, admitted);\n", "")]),
    ("a claim keeps more than it needs", "choice.c", [
        ("k.kept = free < pages ? free : pages;", "k.kept = free;")]),
    ("a claim chooses an extent more than it needs", "choice.c", [
        ("while (k->lack > 0 && k->n_heap > 0)", "while (k->lack > -1 && k->n_heap > 0)"),
        ("\t\tleave_spare(&k, pages);\n", "")]),
    ("an extent that others made up for stays chosen", "choice.c", [
        ("\t\tleave_spare(&k, pages);\n", "")]),
    ("what is free in an extent that is left again is not kept", "choice.c", [
        ("\tk->c->promised += kept - k->kept;\n\tk->kept = kept;\n", "")]),
    ("a claim takes the extents with the most live pages", "choice.c", [
        ("(live < most ? live : most)", "(most - live)")]),
    ("what a claim has waited for in vain is chosen like others", "choice.c", [
        ("vain << 62", "(vain & 2) << 62")]),
    ("extents with pages in quarantine are chosen like others", "choice.c", [
        ("(uint64_t)(quarantined > 0) << 63", "(uint64_t)(quarantined > 9999) << 63")]),
    ("a claim does not pause", "claim.c", [
        ("e->claims_paused_until = e->stamp + (held ? held : 1);", "e->claims_paused_until = e->stamp;")]),
    ("extents with claimed pages move for a floor", "provision.c", [
        ("keep->floors[i] + (afresh ? 0 : claimed)", "keep->floors[i]")]),
    ("a claim holds although no page joins", "claim.c", [
        ("\thold = later(c->moved, e->claim_hold);", "\thold = later(c->since, e->claim_max);")]),
    ("a page that joins does not prolong a claim", "claim.c", [
        ("\t\t\tc->moved = e->stamp;\n", "")]),
    ("a claim holds for ever when pages join", "claim.c", [
        ("return hold < most ? hold : most;", "return hold;")]),
    ("a claim that would exceed its ceiling", "claim.c", [
        ("\treturn q->ceiling && quota_used", "\treturn q->ceiling && 2 * quota_used(q) < quota_used")]),
    ("who runs cannot take what is claimed", "admission.c", [
        ("if (code != SWAKV_ENOPAGES || !e->n_claims || (claims == CLAIMS_ALL && !floored))",
         "if (code != SWAKV_ENOPAGES || !e->n_claims || !floored)")]),
    ("a claim leaves the floors of others nothing", "choice.c", [
        ("\t\treturn d->n_free >= d->promised;", "\t\treturn true;")]),
    ("a begin that is overdue holds up others", "wait.c", [
        ("return !before || before->overdue;", "return !before;")]),
    ("a begin overtakes one that waits", "begin.c", [
        ("bool in_turn = !wait_holds_up(s->quota);", "bool in_turn = !wait_holds_up(s->quota) || s->quota->n_waiting == 1;")]),
    ("pages behind the points of others count as one's own", "behind.c", [
        ("\t\tpages[g->index] = g->n_leaving;\n", "\t\tpages[g->index] = g->class->n_leased - g->n_held + g->n_leaving;\n")]),
    ("pages that wait for a point are forgotten when it is reached", "points.c", [
        ("\t\t\tg->n_leaving -= chain->n;\n", "")]),
    ("a begin whose slots are pending does not wait", "wait.c", [
        ("\tif (wait)\n\t\treturn SWAKV_EAGAIN;", "\tif (wait && code == SWAKV_ENOPAGES)\n\t\treturn SWAKV_EAGAIN;")]),
    ("slots of a begin that waits are given away", "begin.c", [
        ("if (s->slots[slots[i]].seq >= 0 || s->slots[slots[i]].waiting)", "if (s->slots[slots[i]].seq >= 0)")]),
    ("a begin waits beyond its time", "wait.c", [
        ("\t\tif (e->stamp >= w->deadline && !w->session->busy)\n", "\t\tif (e->stamp > w->deadline && !w->session->busy)\n")]),
    ("a turn prepares before it begins", "turn.c", [
        ("\tfinish_all(s, t, armed, n_completes, a);\n\tbegin_all(s, t, a);\n",
         "\tbegin_all(s, t, a);\n\tfinish_all(s, t, armed, n_completes, a);\n")]),
    ("what comes after a refused complete is tried", "turn.c", [
        ("\t\tif (before) {\n\t\t\tbefore->skipped = s->poisoned ? SWAKV_EPOISONED : SWAKV_EPHASE;\n\t\t\tcontinue;\n\t\t}\n",
         "\t\tif (before)\n\t\t\tbefore->skipped = s->poisoned ? SWAKV_EPOISONED : SWAKV_EPHASE;\n")]),
    ("a prepare that is skipped in a poisoned session is said to be of the wrong phase", "turn.c", [
        ("before->skipped = s->poisoned ? SWAKV_EPOISONED : SWAKV_EPHASE;", "before->skipped = SWAKV_EPHASE;")]),
    ("a request stands in a turn twice", "turn.c", [
        ("\t\tr->turn = turn + i;\n", "")]),
    ("a step that maps a page is only counted", "turn.c", [
        ("r->steps + 2 < r->due", "r->steps + 1 < r->due")]),
    ("rows without an owner are left out where steps only count", "turn.c", [
        (" && !has_strays(s);", ";")]),
    ("a turn counts at a fence of another line", "turn.c", [
        ("(line >= 0 && r->stream != line)", "false")]),
    ("a limit that is lifted wakes nobody", "floor_ceiling.c", [
        ("\tq->ceiling = high;\n\te->retry = true;\n", "\tq->ceiling = high;\n")]),
]
