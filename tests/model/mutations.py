# SPDX-License-Identifier: Apache-2.0
"""Faults put into the page engine on purpose: each must be found by the random test.

A mutation is a name, a file of broker/engine, and exact replacements in it:
(old text, new text), where the old text occurs exactly once.
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
    ("staged page reused before its point", "step.c", [
        ("\t\tif (reached) {\n\t\t\tseq_reserved(s, q)", "\t\tif (reached || 1) {\n\t\t\tseq_reserved(s, q)")]),
    ("a point is reached one value early", "points.c", [
        ("s->points[l->first_point].value <= word", "s->points[l->first_point].value <= word + 1")]),
    ("a point is reached one value late", "points.c", [
        ("s->points[l->first_point].value <= word", "s->points[l->first_point].value < word")]),
    ("page retired at prepare instead of complete", "step.c", [
        ("\t\tbind(s, q, q->end);\n",
         "\t\tbind(s, q, q->end);\n"
         "\t\tif (window_begin(&s->window, seq_endpoint(r, q) + 1) > q->begin)\n"
         "\t\t\tpage_table_put(&s->table, q->slot, q->begin, -1);\n")]),
    ("clear of a retired page not sent", "page_table.c", [
        ("\t\t\tif (page == sent[c])\n", "\t\t\tif (page == sent[c] || page < 0)\n")]),
    ("rows of ended requests not sent", "delivery.c", [
        ("\tcollect_list(s, &s->lines[r->stream].stray, d);\n", "")]),
    ("rows of ended requests sent on any stream", "delivery.c", [
        ("collect_list(s, &s->lines[r->stream].stray, d);", "collect_list(s, &s->lines[0].stray, d);")]),
    ("LIFO to FIFO", "step.c", [
        ("\tpage_table_put(&s->table, q->slot, column, seq_reserved(s, q)[--q->n_reserved]);\n",
         "\tint32_t *pages = seq_reserved(s, q), first = pages[0];\n\n"
         "\tq->n_reserved--;\n"
         "\tfor (int32_t i = 0; i < q->n_reserved; i++)\n"
         "\t\tpages[i] = pages[i + 1];\n"
         "\tpage_table_put(&s->table, q->slot, column, first);\n")]),
    ("compaction drops the wrong sequence", "compact.c", [
        ("\t\trequest_seq(s, r, i)->map = old_to_new[i];\n",
         "\t\trequest_seq(s, r, i)->map = old_to_new[n - 1 - i];\n")]),
    ("compaction with moved rows keeps the slots", "compact.c", [
        ("\tif (r->move_rows)\n", "\tif (r->move_rows && r->n_seqs > 2)\n")]),
    ("row not cleared when its slot is given up", "request.c", [
        ("\tif (!s->ended)\n\t\trow_clear(", "\tif (s->ended)\n\t\trow_clear(")]),
    ("a refused begin takes one page", "request.c", [
        ("\tif (need > available)\n",
         "\tif (need > available && s->class->n_free > 0)\n\t\tpage_class_take(s->class);\n"
         "\tif (need > available)\n")]),
    ("a refused prefill leaves the request executing", "step.c", [
        ("\t\tif (lengths[i] < 1 || lengths[i] > r->capacity)\n",
         "\t\tif (lengths[i] > r->capacity)\n\t\t\t((struct request *)r)->phase = PHASE_EXECUTING;\n"
         "\tfor (uint32_t i = 0; i < n; i++)\n"
         "\t\tif (lengths[i] < 1 || lengths[i] > r->capacity)\n")]),
    ("poison spreads to another session", "request.c", [
        ("\ts->poisoned = true;\n",
         "\tstruct session *other;\n\n"
         "\tLIST_FOREACH(other, &s->engine->sessions, siblings)\n\t\tother->poisoned = true;\n")]),
    ("poison is lifted although a stream failed again", "session.c", [
        ("return doubtful ? fault_set(f, FAULT_STILL_POISONED, -1, session_quarantined(s), 0) : 0;",
         "return 0;")]),
    ("V base one page off", "page_table.h", [
        ("k[t->width] = page < 0 ? -1 : page + t->num_pages;",
         "k[t->width] = page < 0 ? -1 : page + t->num_pages - 1;")]),
    ("a row's version does not count", "page_table.c", [
        ("uint32_t version = load_relaxed(&t->heads[row].version) + 1;",
         "uint32_t version = load_relaxed(&t->heads[row].version) + (d->n_rows == 0);")]),
    ("finish does not wait for the open points", "request.c", [
        ("\tvalue = p.value > r->last_value ? p.value : r->last_value;\n", "\tvalue = p.value;\n")]),
    ("a slot behind an open point is free for other streams", "request.c", [
        ("\t\tif (t->line != stream && s->lines[t->line].reached < t->value)\n",
         "\t\tif (t->line != stream && s->lines[t->line].reached + 1 < t->value)\n")]),
    ("a fence above the armed value is taken", "fence.c", [
        ("if (fence->value > armed)", "if (fence->value > armed + 1)")]),
    ("the limit is one token early", "step.c", [
        ("\tif (e > r->capacity)\n\t\treturn SWAKV_ELIMIT;", "\tif (e >= r->capacity)\n\t\treturn SWAKV_ELIMIT;")]),
    ("the batch moves on although one sequence is at its limit", "step.c", [
        ("\t\tworst = code ? code : worst;\n", "\t\tworst = i == 0 ? code : worst;\n")]),
    ("a step looks at the wrong sequences", "agenda.c", [
        ("s->seqs[heap[child + 1]].due < s->seqs[heap[child]].due",
         "s->seqs[heap[child + 1]].due > s->seqs[heap[child]].due")]),
    ("what is due at a step is not put in order again", "agenda.c", [
        ("\twhile (n-- > 0)\n", "\twhile (n-- > 1)\n")]),
    ("a generation is reused", "request.c", [
        ("\tt->generation++;\n", "\tt->generation |= 1;\n")]),
    ("reclaim forgets the pages behind points", "session.c", [
        ("\t\tpages_quarantine(s, line, &p->pages);\n", "")]),
    ("an extent that was taken needlessly", "pool.c", [
        ("\tif (c->n_free >= n)\n\t\treturn;\n\tv.index", "\tif (c->n_free >= ++n)\n\t\treturn;\n\tv.index")]),
    ("an extent is returned with a live page", "pool.c", [
        ("if (!others || p->extents[x].n_live > 0)", "if (!others || p->extents[x].n_live > 1)"),
        ("\tMUST(e->n_live == 0);\n", "\te->n_live = 0;\n"),
        ("page < e->fresh; page++) {\n\t\tMUST(c->state[page] == PAGE_FREE);\n", "page < e->fresh; page++) {\n")]),
    ("a page that ends in a second extent keeps only the first", "page_class.c", [
        ("while (++x <= last)", "while (++x < last)")]),
    ("an empty extent of another class does not count as available", "pool.c", [
        ("next_stretch(p, x, index, true, &first)", "next_stretch(p, x, index, false, &first)")]),
    ("pages of an extent that another class had are clean", "pool.c", [
        ("if (e->former != 0 && e->former != index + 1)", "if (e->former == EXTENT_OF_MANY)")]),
    ("a page across two extents is used with one", "pool.c", [
        ("*hi = (int32_t)(b / c->page_bytes);", "*hi = (int32_t)((b + c->page_bytes / 2) / c->page_bytes);")]),
    ("one update too few travels in a reply", "page_table.c", [
        ("d->n_updates == WIRE_MAX_INLINE_UPDATES", "d->n_updates == WIRE_MAX_INLINE_UPDATES - 1")]),
    ("a row by reference is not named", "page_table.c", [
        ("\tif (changed) {", "\tif (changed && !(d->flags && d->n_rows > 9)) {")]),
    ("a duplicate slot is admitted", "request.c", [
        ("\t\tif (s->slots[slots[seen]].seen)\n", "\t\tif (s->slots[slots[seen]].seen && n > 2)\n")]),
    ("a page of another session counts as clean", "page_class.h", [
        ("return former != serial &&", "return former != serial && former + 1 != serial &&")]),
    ("a page stays dirty after it was scrubbed", "page_class.h", [
        ("\tc->user[page] = serial;\n", "\tif (former == PAGE_FRESH)\n\t\tc->user[page] = serial;\n")]),
    ("a page that was never bound forgets its user", "page_class.c", [
        ("\tc->link[page] = e->top;\n",
         "\tif (page % 5 == 0)\n\t\tc->user[page] = PAGE_FRESH;\n\tc->link[page] = e->top;\n")]),
    ("two sessions have one name", "session.c", [
        ("\ts->serial = ++e->last_serial;\n", "\ts->serial = 1 + ++e->last_serial % 2;\n")]),
    ("always does not mean always", "page_class.c", [
        ("if (c->user[pages[i]] != PAGE_FRESH)", "if (c->user[pages[i]] != PAGE_FRESH && pages[i] % 3)")]),
    ("a scrub names one column too few", "step.c", [
        ("tell_dirty(s, q, first, last, d);", "tell_dirty(s, q, first, last - 1, d);")]),
]
