/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - numbers and codes of the status page as words */
#ifndef SWAKV_STATUS_TEXT_H
#define SWAKV_STATUS_TEXT_H

#include <stdint.h>

#define TEXT_SIZE 24

/* "12 ms", "3.4 s", "5m12s", "2h03m", "4d02h". Writes to @buf and returns it. */
const char *text_duration(char buf[TEXT_SIZE], int64_t ms);
/* Name of an enum wire_op: "begin", "step-prepare", ...; "none" for 0, "unknown" outside the list. Static. */
const char *text_op(uint32_t op);
/* Name of an enum fault_reason as "no-pages", or "reason-117" when it is not known. Writes to @buf and returns it. */
const char *text_reason(char buf[TEXT_SIZE], uint32_t reason);
/* Name of an enum status_session_state: "attached", "closing", "dead", "ended"; "unknown". Static. */
const char *text_session_state(uint32_t state);
/* Name of an enum status_event_kind: "attached", "death", ...; "unknown". Static. */
const char *text_event(uint32_t kind);
/* Name of an enum stay: "idle", "pinned", ...; "unknown". Static. */
const char *text_stay(uint32_t stay);
/* Name of an enum wire_form: "split", "joined"; "unknown". Static. */
const char *text_form(uint32_t form);
/* Name of an enum wire_group_kind: "sliding", "full"; "unknown". Static. */
const char *text_group_kind(uint32_t kind);

#endif
