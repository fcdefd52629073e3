/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closer.c - see closer.h
 *
 * Some threads take numbers of descriptors from a pipe. When all of them are held
 * up, more wait in it: descriptors are what a client that does this uses up. Where
 * the kernel can refuse them, no client can, and no thread is needed (listener.c).
 */
#include "closer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"

enum { THREADS = 8, MAX_UNREAD = 64, STACK_BYTES = 65536 };

static int to_threads = -1; /* set before anybody can connect */

static void take_out_and_close(int fd)
{
	char byte;

	for (int i = 0; i < MAX_UNREAD && recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0; i++)
		continue;
	close_fd(&fd);
}

static void *closer_main(void *arg)
{
	int from = (int)(intptr_t)arg, fd;

	prctl(PR_SET_NAME, "swakvd-closer");
	for (;;)
		if (read(from, &fd, sizeof(fd)) == sizeof(fd)) /* whole: so is each write */
			take_out_and_close(fd);
	return NULL;
}

int closer_start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int ends[2], e = 0;

	if (to_threads >= 0)
		return 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (int i = 0; i < THREADS && e == 0; i++)
		e = pthread_create(&thread, &attr, closer_main, (void *)(intptr_t)ends[0]);
	pthread_attr_destroy(&attr);
	to_threads = ends[1];
	return -e;
}

void closer_close(int *fd)
{
	if (*fd >= 0 && (to_threads < 0 || write(to_threads, fd, sizeof(*fd)) != sizeof(*fd)))
		take_out_and_close(*fd);
	*fd = -1;
}
