/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - one line an event, on stderr
 *
 * With a level prefix as systemd reads it ("<6>"), left out on a terminal. From
 * log_start() to log_stop() a thread of the log's own writes them: nobody else
 * waits for whoever reads stderr. Lines for which there is no room are lost and
 * counted, and the count is logged once there is room. Any thread may log.
 */
#ifndef SWAKV_BROKER_LOG_H
#define SWAKV_BROKER_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6 };

/* Starts the thread; before that, and when it cannot start, each line is written at once. 0 or a negative errno. */
int log_start(void);
/* Ends it when all is written, or when for a moment nothing could be: what is left then is lost. Safe to repeat. */
void log_stop(void);
/* What stands before a line of the gravest level. Static. Async-signal-safe. */
const char *log_prefix(void);
/* Waits for no longer than @ms until all is written. True: it is. Async-signal-safe. */
bool log_drain(unsigned int ms);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * As log_line(), of what user @uid has caused: how many of these are logged is
 * limited for each user (log_limit.h). LOG_NOBODY: it is not known who did.
 * Takes a lock: not for the ring thread.
 */
#define LOG_NOBODY UINT32_MAX
void log_caused(uint32_t uid, enum log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Logs how many of these were left out, where there is room again. To be called now and then. */
void log_left_out(void);

#define log_error(...)        log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...)      log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)         log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_refusal(uid, ...) log_caused(uid, LOG_LEVEL_WARNING, __VA_ARGS__)

#endif
