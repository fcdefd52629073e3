/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h - virtual descriptors, connections and processes: what the control thread finds at its edge
 *
 * A number of a descriptor is given again as soon as it is free, and so is a
 * pid. Whatever was once made is kept until the world ends, so that a check can
 * ask what became of it.
 */
#ifndef SWAKV_SIM_KERNEL_H
#define SWAKV_SIM_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "device/gpu_watch.h"
#include "session/session_edge.h"
#include "wire.h"

struct world;
struct worker;

enum { KERNEL_FIRST = 1 << 20, KERNEL_FILES = 256, KERNEL_SAID = 3 };

/* A process: its pid may be another's later. */
struct process {
	STAILQ_ENTRY(process) link;
	pid_t pid;
	struct worker *worker; /* that it is an incarnation of */
	uint32_t number;       /* of that */
	bool exited;
	bool on_gpu; /* NVML lists it */
	bool old;
};

/* What a session shares with its worker; both have it mapped. */
struct shared {
	STAILQ_ENTRY(shared) link;
	struct session_layout layout;
	unsigned char *session, *tables;
	struct connection *connection; /* it was made for */
	bool broker;                   /* has it mapped */
	uint32_t mapped;               /* by how many */
};

/* Between two ends: the broker's, and a worker's or an administrator's. */
struct connection {
	STAILQ_ENTRY(connection) link;
	STAILQ_ENTRY(connection) waiting; /* in a backlog */
	struct process *process;
	uid_t uid;
	bool admin;
	uint32_t model_index;        /* of the world's plan, that its worker attaches with */
	bool lies;                   /* its first message is not what it should be */
	struct connection *joins;    /* whose session it asks to join; NULL: none's */
	bool stranger;               /* and it may not */
	bool noticed;                /* it has become readable by the broker's notice */
	bool accepted, closed_there; /* by the broker */
	bool closed_here;
	bool told_end;  /* the broker sends no more */
	bool heard;     /* the broker has taken its first message */
	uint64_t since; /* of accept */
	/* towards the broker */
	struct said {
		pid_t pid; /* of the sender */
		size_t bytes;
		unsigned char data[sizeof(struct wire_hello) + 64];
	} said[KERNEL_SAID];
	uint32_t n_said;
	/* from the broker */
	bool answered;
	size_t answer_bytes;
	struct wire_welcome welcome;
	unsigned char answer[1024]; /* an administrator's: its beginning */
	struct shared *shared;
	struct kfile *doorbell;
	void (*news)(void *arg); /* something has come from the broker */
	void *arg;
};

enum kfile_kind { KFILE_LISTENING, KFILE_SOCKET, KFILE_PIDFD, KFILE_MEMORY, KFILE_BELL, KFILE_SPARE, KFILE_COPY };

struct kfile {
	STAILQ_ENTRY(kfile) link;
	enum kfile_kind kind;
	bool admin; /* of a listening socket */
	struct connection *connection;
	struct process *process;
	struct shared *shared;
	struct source *source;      /* the control thread watches it */
	void *who;                  /* the ring thread does, for this channel */
	struct connection *noticed; /* of a copy of its socket */
};

struct kernel {
	struct kfile *files[KERNEL_FILES];
	uint32_t n_files, limit; /* as many may be open */
	uint64_t starved;        /* when an open failed last: at the limit */
	struct source *mail, *gone;
	bool mail_ready, gone_ready;
	STAILQ_HEAD(, connection) backlog[2]; /* workers', administrators' */
	bool listening[2];
	STAILQ_HEAD(, kfile) all_files;
	STAILQ_HEAD(, connection) connections;
	STAILQ_HEAD(process_list, process) processes, old_processes; /* old: neither running nor on the GPU */
	STAILQ_HEAD(shared_list, shared) memories, old_memories;     /* old: the broker does not map them */
	struct connection *current;                                  /* whose message the broker has taken last */
	struct kernel_gpu {
		pid_t pid; /* 0: nobody is watched here */
		bool ended, seen, gone;
	} gpu[GPU_WATCH_PLACES];
	uint32_t kicked[GPU_WATCH_PLACES + 1]; /* generation of the session that was ended last for a violation */
};

void kernel_init(struct world *w);
void kernel_free(struct world *w);
struct session_edge kernel_edge(struct world *w);

/* A process of @v begins, with the lowest pid that is free. */
struct process *process_new(struct world *w, struct worker *v);
/* Its connections close, its pidfds are readable. */
void process_exit(struct world *w, struct process *p);
/* Nothing of it is on the GPU any more. */
void process_off_gpu(struct world *w, struct process *p);

/* From @p of @uid to the broker's socket (@admin: the administrators'). NULL: nobody listens. */
struct connection *connection_new(struct world *w, struct process *p, uid_t uid, bool admin);
void connection_say(struct world *w, struct connection *c, pid_t pid, const void *message, size_t bytes);
void connection_close(struct world *w, struct connection *c);

/* The ring thread sends a byte to whoever waits for the socket. */
void kernel_notify(struct world *w, int socket);

void shared_release(struct shared *s);

/* A descriptor that listens. */
int kernel_listen(struct world *w, bool admin);
void kernel_stop_listening(struct world *w, struct listener *l);
/* What is ready of what the control thread watches, in @out; how many. */
uint32_t kernel_ready(const struct world *w, struct source *out[KERNEL_FILES + 2]);
/* The device thread asks NVML. */
void kernel_look_at_gpu(struct world *w);
/* True when a descriptor could not be had just now. */
bool kernel_starved(const struct world *w);

#endif
