/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - one line an event, on stderr
 *
 * With a level prefix as systemd reads it ("<6>"), left out on a terminal. Each
 * line is one write(2). Not for the ring thread: writing may block.
 */
#ifndef SWAKV_BROKER_LOG_H
#define SWAKV_BROKER_LOG_H

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_NOTICE = 5, LOG_LEVEL_INFO = 6 };

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * As log_line(), for refusals, which a client can cause at will: at most 10 a
 * second; the next line that gets through says how many were left out. For one
 * thread, the control thread.
 */
void log_refusal(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_INFO, __VA_ARGS__)

#endif
