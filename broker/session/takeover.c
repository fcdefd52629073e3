/* SPDX-License-Identifier: Apache-2.0 */
/* takeover.c - see takeover.h */
#include "takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "activation.h"
#include "cleanup.h"
#include "config/config.h"
#include "process/process.h"

#define ELSEWHERE "--socket a path in a folder of your own, or set XDG_RUNTIME_DIR to one"

static int make_directory(const char *path, bool everyone, char *why, size_t size)
{
	char copy[CONFIG_SOCKET];
	const char *dir;

	snprintf(copy, sizeof(copy), "%s", path);
	dir = dirname(copy);
	if (mkdir(dir, everyone ? 0755 : 0700) == 0 || errno == EEXIST)
		return 0;
	snprintf(why, size, "directory %s for the socket cannot be created: %s; create it, or give " ELSEWHERE, dir,
		 strerror(errno));
	return EXIT_CODE_FAILURE;
}

/* True when some process has the socket at @path: a dead one's refuses. */
static bool is_bound(const char *path)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, path);
	return fd >= 0 && (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
			   (errno != ECONNREFUSED && errno != ENOENT));
}

/* Whatever stands at the path must be a dead process's socket, one that was passed to this process, or nothing. */
static int check_in_the_way(const char *path, char *why, size_t size)
{
	struct stat st;

	if (activation_has(path) || lstat(path, &st) < 0)
		return 0;
	if (S_ISSOCK(st.st_mode)) {
		if (!is_bound(path))
			return 0;
		snprintf(why, size,
			 "a running process listens on %s, though its lock %s.lock (was that file removed?) is free: "
			 "stop it, or choose another name or socket",
			 path, path);
		return EXIT_CODE_IN_USE;
	}
	snprintf(why, size, "%s is %s and not a socket: refusing to replace it", path,
		 S_ISLNK(st.st_mode)   ? "a symbolic link"
		 : S_ISDIR(st.st_mode) ? "a directory"
				       : "a file");
	return EXIT_CODE_IN_USE;
}

int takeover_lock(int *lock, const char *path, bool everyone, char *why, size_t size)
{
	char name[CONFIG_SOCKET + 8];
	int r = make_directory(path, everyone, why, size);

	*lock = -1;
	if (r)
		return r;
	snprintf(name, sizeof(name), "%s.lock", path);
	*lock = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*lock < 0) {
		snprintf(why, size, "%s cannot be opened: %s%s", name,
			 errno == ELOOP ? "it is a symbolic link" : process_error(errno),
			 errno == EACCES || errno == EROFS || errno == EPERM ? "; give " ELSEWHERE : "");
		return errno == ELOOP ? EXIT_CODE_IN_USE : EXIT_CODE_FAILURE;
	}
	if (flock(*lock, LOCK_EX | LOCK_NB) < 0) {
		snprintf(why, size, "a running broker holds %s: stop it, or choose another name or socket", name);
		return EXIT_CODE_IN_USE;
	}
	return check_in_the_way(path, why, size);
}

int takeover_socket(const char *path, char *why, size_t size)
{
	int r = check_in_the_way(path, why, size);

	if (r)
		return r;
	if (unlink(path) < 0 && errno != ENOENT) {
		snprintf(why, size, "the stale socket %s cannot be removed: %s", path, strerror(errno));
		return EXIT_CODE_FAILURE;
	}
	return 0;
}
