/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - the closed list of results of every swakv call
 *
 * Functions return 0 or one of the negative codes below. The first ten are the
 * protocol's own (spec section 3): when several apply to one call, the first of
 * this order is given. The others belong to the library and its process.
 */
#ifndef SWAKV_ERROR_H
#define SWAKV_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum swakv_code {
	SWAKV_OK = 0,
	SWAKV_EDENIED = -1,       /* this uid may not use this broker or this call */
	SWAKV_EGONE = -2,         /* the session or the broker has ended */
	SWAKV_EPOISONED = -3,     /* a completion failed: see swakv_session_shutdown() */
	SWAKV_EPHASE = -4,        /* right call, wrong moment in the lifecycle */
	SWAKV_EINVALID = -5,      /* an argument is wrong; nothing changed */
	SWAKV_EBUSY = -6,         /* the slot or the handle is in use */
	SWAKV_EPENDING = -7,      /* behind an open completion point: retry later */
	SWAKV_ENEVER = -8,        /* cannot fit this pool, ever */
	SWAKV_ENOPAGES = -9,      /* no pages now; another request must end first */
	SWAKV_ELIMIT = -10,       /* length limit reached; the request is finishing */
	SWAKV_ENOMEM = -11,       /* this process is out of memory */
	SWAKV_ESYSTEM = -12,      /* a system call failed */
	SWAKV_EVERSION = -13,     /* library and broker do not speak the same version */
	SWAKV_EFORKED = -14,      /* called in a child of the process that attached */
	SWAKV_ETIMEDOUT = -15,    /* the broker did not answer within the time given */
	SWAKV_EDEVICE = -16,      /* the GPU driver, or a stream's callback, failed */
	SWAKV_EAGAIN = -17,       /* swakv_poll(): no answer yet */
	SWAKV_EUNSUPPORTED = -18, /* not supported by this build or this broker */
};

/* Short stable name of @code, "invalid" for SWAKV_EINVALID; "ok" for 0; "unknown" outside the list. Static. */
const char *swakv_error_name(int code);

/* One general sentence about @code. Static. The session keeps the precise one. */
const char *swakv_error_text(int code);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
