/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "status_page.h"

static char name[WIRE_NAME];            /* instance */
static char object[WIRE_NAME + 8];      /* its shm object */
static char path[WIRE_NAME + 32];       /* the same as a file */
static char other_link[WIRE_NAME + 40]; /* a second name of it, in one test */
static struct status_writer w;
static struct status_reader r;
static struct status_snapshot *out;

static void setup(void)
{
	snprintf(name, sizeof(name), "unit-status-%d", (int)getpid());
	snprintf(object, sizeof(object), "/swakv-%s", name);
	snprintf(path, sizeof(path), "/dev/shm%s", object);
	snprintf(other_link, sizeof(other_link), "%s.link", path);
	shm_unlink(object); /* of a process that had this number and was killed */
	rmdir(path);
	r.fd = w.fd = -1;
	out = calloc(1, sizeof(*out));
	cr_assert_not_null(out);
}

static void teardown(void)
{
	status_reader_close(&r);
	status_writer_close(&w);
	shm_unlink(object);
	unlink(other_link);
	free(out);
}

TestSuite(status_page, .init = setup, .fini = teardown);

static void open_ready(void)
{
	cr_assert_eq(status_writer_open(&w, name), 0);
	status_writer_ready(&w);
}

/* Publishes a snapshot with one class, @n sessions and one request with one sequence of two bindings. */
static struct status_snapshot *draft_small(uint32_t n)
{
	struct status_snapshot *s = status_writer_begin(&w);

	s->n_classes = s->n_requests = s->n_sequences = 1;
	s->n_bindings = 2;
	s->n_sessions = n;
	s->classes[0] = (struct status_class){ .page_bytes = 4096, .pages = 10, .free = 8, .leased = 2 };
	for (uint32_t i = 0; i < n; i++)
		s->sessions[i] = (struct status_session){ .id = i + 1, .model = "m", .n_groups = 1 };
	s->requests[0] = (struct status_request){ .handle = 7, .n_sequences = 1 };
	s->sequences[0] = (struct status_sequence){ .slot = 3, .n_bound = 2 };
	s->bindings[0] = (struct wire_binding){ 4, 11 };
	s->bindings[1] = (struct wire_binding){ 5, 12 };
	return s;
}

Test(status_page, what_is_published_is_read)
{
	open_ready();
	draft_small(2);
	status_writer_commit(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert_eq(status_reader_copy(&r, out), 0);
	cr_assert_eq(out->number, 1);
	cr_assert_eq(out->n_sessions, 2);
	cr_assert_eq(out->sessions[1].id, 2);
	cr_assert_eq(out->classes[0].leased, 2);
	cr_assert_eq(out->requests[0].handle, 7);
	cr_assert_eq(out->sequences[0].slot, 3);
	cr_assert_eq(out->bindings[1].page, 12);
	cr_assert_neq(out->published_ns, 0);
	cr_assert_str_eq(r.head.instance, name);
	cr_assert_eq(r.head.pid, getpid());
}

Test(status_page, page_is_readable_by_the_group_and_by_nobody_else)
{
	struct stat st;

	static const mode_t masks[] = { 0, 027, 077 };

	for (int i = 0; i < 3; i++) {
		umask(masks[i]);
		cr_assert_eq(status_writer_open(&w, name), 0);
		cr_assert_eq(fstat(w.fd, &st), 0);
		cr_assert_eq(st.st_mode & 07777, 0640);
		status_writer_close(&w);
	}
}

Test(status_page, no_page)
{
	cr_assert_eq(status_reader_open(&r, name), -ENOENT);
	cr_assert_not(status_reader_alive(&r));
}

Test(status_page, unfinished_page_is_refused_and_its_broker_seen)
{
	cr_assert_eq(status_writer_open(&w, name), 0);
	cr_assert_eq(status_reader_open(&r, name), -EPROTO);
	cr_assert_eq(r.version, 0);
	cr_assert(status_reader_alive(&r));
}

Test(status_page, other_version_is_refused_and_its_broker_seen)
{
	open_ready();
	w.head->version = STATUS_VERSION + 1;
	cr_assert_eq(status_reader_open(&r, name), -EPROTO);
	cr_assert_eq(r.version, STATUS_VERSION + 1);
	cr_assert(status_reader_alive(&r));
}

Test(status_page, other_layout_is_refused)
{
	open_ready();
	w.head->snapshot_bytes += 4096;
	cr_assert_eq(status_reader_open(&r, name), -EPROTO);
	status_reader_close(&r);
	w.head->snapshot_bytes -= 4096;
	w.head->head_bytes += 8;
	cr_assert_eq(status_reader_open(&r, name), -EPROTO);
}

Test(status_page, short_page_is_refused)
{
	open_ready();
	cr_assert_eq(ftruncate(w.fd, (off_t)w.bytes - 1), 0);
	cr_assert_eq(status_reader_open(&r, name), -EPROTO);
	status_reader_close(&r);
	cr_assert_eq(ftruncate(w.fd, 8), 0);
	cr_assert_eq(status_reader_open(&r, name), -EPROTO);
}

Test(status_page, impossible_names_are_refused)
{
	static const char *const bad[] = { "", "a/b", "../x", "a b", ".x", "-1", "n234567890123456789012345678901234" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(status_writer_open(&w, bad[i]), -EINVAL, "%s", bad[i]);
		cr_assert_eq(status_reader_open(&r, bad[i]), -EINVAL, "%s", bad[i]);
	}
}

Test(status_page, lock_tells_whether_the_broker_lives)
{
	open_ready();
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert(status_reader_alive(&r));
	status_writer_close(&w);
	cr_assert_not(status_reader_alive(&r));
}

Test(status_page, what_is_shared_can_be_read_and_nothing_else)
{
	int fd;

	open_ready();
	draft_small(1);
	status_writer_commit(&w);
	fd = status_writer_share(&w);
	cr_assert_geq(fd, 0);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	cr_expect_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	cr_expect_lt(write(fd, "x", 1), 0);
	cr_expect_lt(ftruncate(fd, 0), 0);
	cr_expect_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	cr_assert_eq(status_reader_adopt(&r, fd), 0);
	cr_expect(status_reader_alive(&r));
	cr_expect_eq(status_reader_copy(&r, out), 0);
	cr_expect_eq(out->n_sessions, 1);
	status_writer_close(&w);
	cr_expect_not(status_reader_alive(&r), "the same page: it says when its broker has gone");
}

Test(status_page, nothing_is_shared_where_no_page_is)
{
	cr_expect_eq(status_writer_share(&(struct status_writer){ .fd = -1 }), -EBADF);
}

Test(status_page, what_was_passed_and_is_no_page_is_refused)
{
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_expect_eq(status_reader_adopt(&r, fds[0]), -EPROTO);
	status_reader_close(&r);
	close(fds[1]);
	cr_expect_eq(status_reader_adopt(&r, open("/dev/zero", O_RDONLY)), -EPROTO);
	status_reader_close(&r);
	cr_expect_eq(status_reader_adopt(&r, memfd_create("empty", 0)), -EPROTO);
	status_reader_close(&r);
	cr_expect_eq(status_reader_adopt(&r, -1), -EBADF);
}

Test(status_page, reader_that_holds_a_lock_is_no_broker)
{
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd = shm_open(object, O_RDWR | O_CREAT, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &l), 0);
	cr_assert_eq(status_reader_open(&r, name), -EPROTO);
	cr_assert_not(status_reader_alive(&r));
	cr_assert_eq(status_writer_open(&w, name), 0, "and keeps nobody from the name");
	close(fd);
}

Test(status_page, second_writer_is_refused)
{
	struct status_writer second;

	open_ready();
	cr_assert_eq(status_writer_open(&second, name), -EEXIST);
	status_writer_close(&second);
	status_writer_close(&second);
	cr_assert_eq(status_reader_open(&r, name), 0, "the first one's page is untouched");
}

/* Stands before libc's: runs `before_lock`, once, when the code under test has opened an object and will lock it. */
static void (*before_lock)(void);
static int locks_before; /* that many are let pass first */

int fcntl(int fd, int command, ...)
{
	void (*run)(void) = before_lock;
	va_list ap;
	void *argument;

	va_start(ap, command);
	argument = va_arg(ap, void *);
	va_end(ap);
	if (command == F_OFD_SETLK && run && locks_before-- == 0) {
		locks_before = 0;
		before_lock = NULL;
		run();
	}
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

/* Likewise: runs `before_unlink`, once, when a name is about to go. */
static void (*before_unlink)(void);

int shm_unlink(const char *shm_name)
{
	void (*run)(void) = before_unlink;
	char file[64];

	before_unlink = NULL;
	if (run)
		run();
	snprintf(file, sizeof(file), "/dev/shm%s", shm_name);
	return unlink(file);
}

/* A child publishes one snapshot with @n sessions and dies without a word. */
static void writer_killed(uint32_t n)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (status_writer_open(&w, name) < 0)
			_exit(1);
		status_writer_ready(&w);
		draft_small(n);
		status_writer_commit(&w);
		kill(getpid(), SIGKILL);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSIGNALED(status));
}

Test(status_page, page_of_a_dead_writer_is_read_and_taken_over)
{
	struct status_reader old;

	writer_killed(5);
	cr_assert_eq(status_reader_open(&old, name), 0);
	cr_assert_not(status_reader_alive(&old));
	open_ready();
	cr_assert_eq(status_reader_copy(&old, out), 0, "who reads the old page still can");
	cr_assert_eq(out->n_sessions, 5);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert(status_reader_alive(&r));
	cr_assert_eq(status_reader_copy(&r, out), -EAGAIN, "nothing of the dead one shows in the new page");
	status_reader_close(&old);
}

static struct status_writer faster;

static void overtake(void)
{
	cr_assert_eq(status_writer_open(&faster, name), 0);
	status_writer_ready(&faster);
}

static void cleared_away(void)
{
	cr_assert_eq(shm_unlink(object), 0);
}

Test(status_page, writer_overtaken_before_it_locked_the_dead_page_is_refused)
{
	writer_killed(1);
	before_lock = overtake;
	cr_assert_eq(status_writer_open(&w, name), -EEXIST);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert(status_reader_alive(&r), "the faster one's page still has the name");
	status_writer_close(&faster);
}

Test(status_page, writer_overtaken_before_it_locked_its_new_page_is_refused)
{
	before_lock = overtake;
	cr_assert_eq(status_writer_open(&w, name), -EEXIST);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert(status_reader_alive(&r));
	status_writer_close(&faster);
}

static int late_result;

static void come_too_late(void)
{
	late_result = status_writer_open(&faster, name);
	status_writer_close(&faster);
}

Test(status_page, writer_that_comes_while_another_starts_waits_and_is_refused)
{
	writer_killed(1);
	late_result = 0;
	before_unlink = come_too_late;
	cr_assert_eq(status_writer_open(&w, name), 0);
	cr_assert_eq(late_result, -EBUSY);
}

Test(status_page, nothing_but_the_page_is_left_of_a_start)
{
	char start[WIRE_NAME + 32];

	snprintf(start, sizeof(start), "/dev/shm/.swakv-%s", name);
	open_ready();
	cr_assert_eq(access(start, F_OK), -1);
	status_writer_close(&w);
	cr_assert_eq(access(path, F_OK), -1);
}

/* ---- a page that comes to harm under its broker --------------------------------------- */

static void renewed(void)
{
	cr_assert_not(status_writer_sound(&w));
	cr_assert_eq(status_writer_renew(&w), 0);
	cr_assert(status_writer_sound(&w), "one renewal at a time");
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert_eq(status_reader_copy(&r, out), -EAGAIN, "nothing has been published there yet");
	status_reader_close(&r);
	draft_small(3);
	status_writer_commit(&w);
	cr_assert(status_writer_sound(&w));
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert(status_reader_alive(&r));
	cr_assert_str_eq(r.head.instance, name);
	cr_assert_eq(status_reader_copy(&r, out), 0);
	cr_assert_eq(out->n_sessions, 3);
	status_reader_close(&r);
}

Test(status_page, page_that_was_cut_short_is_made_anew)
{
	open_ready();
	cr_assert(status_writer_sound(&w));
	cr_assert_eq(truncate(path, 0), 0);
	renewed();
	cr_assert_eq(truncate(path, (off_t)w.bytes - 1), 0);
	renewed();
}

Test(status_page, page_that_is_made_anew_has_the_same_readers)
{
	struct stat st;

	if (geteuid() != 0)
		cr_skip_test("only root can give a file to any group");
	open_ready();
	cr_assert_eq(chown(path, (uid_t)-1, 4711), 0);
	cr_assert_eq(unlink(path), 0);
	renewed();
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_gid, 4711);
	cr_assert_eq(st.st_mode & 07777, 0640);
}

Test(status_page, page_whose_head_was_overwritten_is_made_anew)
{
	int fd;

	open_ready();
	fd = open(path, O_RDWR | O_CLOEXEC);
	cr_assert_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	renewed();
	close(fd);
}

Test(status_page, page_that_lost_its_name_is_made_anew)
{
	open_ready();
	cr_assert_eq(unlink(path), 0);
	renewed();
}

Test(status_page, page_that_lost_memory_is_made_anew)
{
	open_ready();
	store_relaxed(&w.lost, 1);
	renewed();
}

Test(status_page, name_that_another_took_is_left_to_it)
{
	open_ready();
	cr_assert_eq(unlink(path), 0);
	overtake();
	cr_assert_not(status_writer_sound(&w));
	cr_assert_eq(status_writer_renew(&w), -EEXIST);
	status_writer_close(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	status_writer_close(&faster);
}

Test(status_page, reader_of_a_page_that_is_cut_short_lives_on)
{
	open_ready();
	draft_small(1);
	status_writer_commit(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert_eq(truncate(path, (off_t)w.head->head_bytes), 0);
	cr_assert_eq(status_reader_copy(&r, out), -EPROTO);
	cr_assert_eq(truncate(path, 0), 0);
	cr_assert_eq(status_reader_copy(&r, out), -EPROTO);
}

Test(status_page, page_of_another_user_than_its_brokers_is_refused)
{
	if (geteuid() != 0)
		cr_skip_test("only root can give a file away");
	open_ready();
	cr_assert_eq(chown(path, 65534, (gid_t)-1), 0);
	cr_assert_eq(status_reader_open(&r, name), -EPERM);
	cr_assert_eq(r.owner, 65534);
	status_reader_close(&r);
	cr_assert_eq(chown(path, 0, (gid_t)-1), 0);
	w.head->uid = 65534;
	cr_assert_eq(status_reader_open(&r, name), -EPERM, "what the page says of itself");
}

static int bind_at(const char *at)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	strcpy(address.sun_path, at);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Somebody took the name, and says of the page that it is his own: the broker's socket tells. */
Test(status_page, page_of_another_user_than_the_brokers_sockets_is_refused)
{
	char folder[] = "/tmp/swakv-unit.XXXXXX", below[64], at[104];
	int fd;

	if (geteuid() != 0)
		cr_skip_test("only root can give a file away");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(below, sizeof(below), "%s/swakv", folder);
	cr_assert_eq(mkdir(below, 0700), 0);
	snprintf(at, sizeof(at), "%s/%s.sock", below, name);
	fd = bind_at(at);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	open_ready();
	cr_assert_eq(status_reader_open(&r, name), 0);
	status_reader_close(&r);
	cr_assert_eq(chown(path, 65534, (gid_t)-1), 0);
	w.head->uid = 65534;
	cr_assert_eq(status_reader_open(&r, name), -EPERM);
	unlink(at);
	status_reader_close(&r);
	cr_assert_eq(status_reader_open(&r, name), 0, "a broker of that user, as far as anybody can tell");
	close(fd);
	rmdir(below);
	rmdir(folder);
}

Test(status_page, pipe_in_the_place_of_a_page_stops_nobody)
{
	cr_assert_eq(mkfifo(path, 0666), 0);
	cr_assert_eq(status_reader_open(&r, name), -EPROTO);
	cr_assert_not(status_reader_alive(&r));
	cr_assert_eq(status_writer_open(&w, name), -EPERM);
}

Test(status_page, page_that_loses_its_name_before_it_is_locked_is_made_again)
{
	locks_before = 1; /* of the start lock */
	before_lock = cleared_away;
	cr_assert_eq(status_writer_open(&w, name), 0);
	status_writer_ready(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert(status_reader_alive(&r));
}

/*
 * A child that tries to get the page once @gate closes and writes 'w' (won) or
 * 'l' to @answers. The winner holds the page until it is killed.
 */
static pid_t contender(const int gate[2], const int answers[2])
{
	pid_t child = fork();
	char c;

	if (child != 0)
		return child;
	close(gate[1]);
	close(answers[0]);
	c = read(gate[0], &c, 1) == 0 && status_writer_open(&w, name) == 0 ? 'w' : 'l';
	if (write(answers[1], &c, 1) != 1)
		_exit(1);
	close(answers[1]);
	if (c == 'w')
		pause();
	_exit(0);
}

static void contend(int round)
{
	enum { N = 8 };
	int gate[2], answers[2], n_won = 0;
	pid_t children[N];
	char c;

	cr_assert_eq(pipe(gate), 0);
	cr_assert_eq(pipe(answers), 0);
	for (int i = 0; i < N; i++)
		cr_assert_gt(children[i] = contender(gate, answers), 0);
	close(gate[0]);
	close(gate[1]);
	close(answers[1]);
	for (int i = 0; i < N; i++) {
		cr_assert_eq(read(answers[0], &c, 1), 1);
		n_won += c == 'w';
	}
	close(answers[0]);
	cr_assert_eq(n_won, 1, "round %d: %d writers hold one name", round, n_won);
	cr_assert_eq(status_reader_open(&r, name), -EPROTO);
	cr_assert(status_reader_alive(&r), "the winner's lock is on the object behind the name");
	status_reader_close(&r);
	for (int i = 0; i < N; i++) {
		kill(children[i], SIGKILL);
		cr_assert_eq(waitpid(children[i], NULL, 0), children[i]);
	}
}

Test(status_page, of_many_starting_writers_one_wins)
{
	for (int round = 0; round < 25; round++) {
		if (round % 2)
			shm_unlink(object); /* else: the dead one of the round before */
		contend(round);
	}
}

Test(status_page, symlink_is_refused_and_its_target_untouched)
{
	char target[] = "/tmp/swakv-status-XXXXXX";
	int fd = mkstemp(target);
	struct stat st;

	cr_assert_geq(fd, 0);
	cr_assert_eq(symlink(target, path), 0);
	cr_assert_eq(status_writer_open(&w, name), -EPERM);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(st.st_size, 0);
	cr_assert_eq(status_reader_open(&r, name), -ELOOP);
	unlink(target);
	close(fd);
}

Test(status_page, folder_or_socket_in_the_place_of_a_page_is_a_taken_name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	cr_assert_eq(mkdir(path, 0755), 0);
	cr_assert_eq(status_writer_open(&w, name), -EPERM);
	cr_assert_eq(rmdir(path), 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	cr_assert_eq(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(status_writer_open(&w, name), -EPERM);
	close(s);
}

Test(status_page, hard_link_is_refused)
{
	int fd = shm_open(object, O_RDWR | O_CREAT, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(link(path, other_link), 0);
	cr_assert_eq(status_writer_open(&w, name), -EPERM);
	close(fd);
}

Test(status_page, object_of_another_user_is_refused)
{
	int fd = shm_open(object, O_RDWR | O_CREAT, 0666);

	cr_assert_geq(fd, 0);
	if (fchown(fd, 12345, (gid_t)-1) < 0)
		cr_skip_test("only root can make an object of another user");
	cr_assert_eq(status_writer_open(&w, name), -EPERM);
	close(fd);
}

Test(status_page, only_its_own_page_is_unlinked)
{
	struct status_writer second;

	open_ready();
	cr_assert_eq(shm_unlink(object), 0);
	cr_assert_eq(status_writer_open(&second, name), 0);
	status_writer_ready(&second);
	status_writer_close(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert(status_reader_alive(&r));
	status_writer_close(&second);
	status_reader_close(&r);
	cr_assert_eq(status_reader_open(&r, name), -ENOENT);
}

Test(status_page, closing_twice_or_unopened_does_nothing)
{
	struct status_writer never = { 0 };

	status_writer_close(&never);
	open_ready();
	status_writer_close(&w);
	status_writer_close(&w);
	status_reader_close(&r);
	status_reader_close(&r);
}

Test(status_page, no_snapshot_yet)
{
	open_ready();
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert_eq(status_reader_copy(&r, out), -EAGAIN);
	status_writer_begin(&w);
	cr_assert_eq(status_reader_copy(&r, out), -EAGAIN, "a draft is not shown");
}

/* The snapshot in shared memory that holds, or will hold, @number. */
static struct status_snapshot *shared_snapshot(uint64_t number)
{
	return (void *)((char *)w.head + w.head->head_bytes + (number & 1) * w.head->snapshot_bytes);
}

Test(status_page, writer_stopped_half_way_leaves_the_last_snapshot)
{
	struct status_snapshot *next;

	open_ready();
	draft_small(4);
	status_writer_commit(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	/* what a commit has done when it is stopped before its flip */
	next = shared_snapshot(2);
	memset((char *)next + sizeof(next->number), 0xff, sizeof(*next) - sizeof(next->number));
	cr_assert_eq(status_reader_copy(&r, out), 0);
	cr_assert_eq(out->number, 1);
	cr_assert_eq(out->n_sessions, 4);
}

/* Seen by the handler below at the moment when a commit first touches the bindings. */
static volatile uint64_t number_while_written, current_while_written;
static void *guarded;

static size_t guarded_bytes(void)
{
	return (sizeof(out->bindings) - 4096) & ~(size_t)4095;
}

static void see_commit(int signal_number)
{
	number_while_written = shared_snapshot(3)->number;
	current_while_written = load_relaxed(&w.head->current);
	mprotect(guarded, guarded_bytes(), PROT_READ | PROT_WRITE);
}

Test(status_page, snapshot_has_no_number_while_it_is_written)
{
	struct sigaction a = { .sa_handler = see_commit };
	uintptr_t bindings;

	open_ready();
	for (int i = 0; i < 2; i++) {
		draft_small(1);
		status_writer_commit(&w);
	}
	bindings = (uintptr_t)shared_snapshot(3)->bindings;
	guarded = (void *)((bindings + 4095) & ~(uintptr_t)4095);
	draft_small(1)->n_bindings = STATUS_MAX_BINDINGS;
	number_while_written = current_while_written = UINT64_MAX;
	sigaction(SIGSEGV, &a, NULL);
	cr_assert_eq(mprotect(guarded, guarded_bytes(), PROT_NONE), 0);
	status_writer_commit(&w);
	signal(SIGSEGV, SIG_DFL);
	cr_assert_eq(number_while_written, 0, "it was %lu", (unsigned long)number_while_written);
	cr_assert_eq(current_while_written, 2, "readers are still sent to the one before");
	cr_assert_eq(shared_snapshot(3)->number, 3);
	cr_assert_eq(load_relaxed(&w.head->current), 3);
}

Test(status_page, overwritten_snapshot_is_torn_and_not_believed)
{
	open_ready();
	for (int i = 0; i < 2; i++) {
		draft_small(1);
		status_writer_commit(&w);
	}
	cr_assert_eq(status_reader_open(&r, name), 0);
	/* a writer so far ahead that it already writes what this reader was sent to */
	shared_snapshot(2)->number = 0;
	cr_assert_eq(status_reader_copy(&r, out), -EAGAIN);
	shared_snapshot(2)->number = 4;
	cr_assert_eq(status_reader_copy(&r, out), -EAGAIN);
	shared_snapshot(2)->number = 2;
	cr_assert_eq(status_reader_copy(&r, out), 0);
}

Test(status_page, impossible_counts_are_refused)
{
	struct status_snapshot *s;
	uint32_t *counts[7];
	static const uint32_t max[7] = { STATUS_MAX_CLASSES,   STATUS_MAX_SESSIONS, STATUS_MAX_REQUESTS,
					 STATUS_MAX_SEQUENCES, STATUS_MAX_BINDINGS, STATUS_MAX_TALLIES,
					 STATUS_MAX_DENIALS };

	open_ready();
	draft_small(1);
	status_writer_commit(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	s = shared_snapshot(1);
	counts[0] = &s->n_classes;
	counts[1] = &s->n_sessions;
	counts[2] = &s->n_requests;
	counts[3] = &s->n_sequences;
	counts[4] = &s->n_bindings;
	counts[5] = &s->n_tallies;
	counts[6] = &s->n_denials;
	for (int i = 0; i < 7; i++) {
		uint32_t was = *counts[i];

		*counts[i] = max[i] + 1;
		cr_assert_eq(status_reader_copy(&r, out), -EPROTO, "count %d", i);
		*counts[i] = UINT32_MAX;
		cr_assert_eq(status_reader_copy(&r, out), -EPROTO, "count %d", i);
		*counts[i] = was;
		cr_assert_eq(status_reader_copy(&r, out), 0, "count %d", i);
	}
}

Test(status_page, impossible_indices_are_refused)
{
	struct status_snapshot *s;

	open_ready();
	cr_assert_eq(status_reader_open(&r, name), 0);
#define REFUSED(change)                                                                                                \
	s = draft_small(1);                                                                                            \
	change;                                                                                                        \
	status_writer_commit(&w);                                                                                      \
	cr_assert_eq(status_reader_copy(&r, out), -EPROTO, #change)
	REFUSED(s->sessions[0].groups[0].class_index = 1);
	REFUSED(s->sessions[0].n_groups = 0);
	REFUSED(s->sessions[0].n_groups = WIRE_MAX_GROUPS + 1);
	REFUSED(s->sessions[0].n_groups = 2);
	REFUSED(s->sequences[0].group = WIRE_MAX_GROUPS);
	REFUSED(s->requests[0].session = 1);
	REFUSED(s->requests[0].first_sequence = 1);
	REFUSED(s->requests[0].n_sequences = 2);
	REFUSED(s->sequences[0].n_bound = 3);
	REFUSED(s->sequences[0].n_retiring = 1); /* two are bound, and there are two */
	REFUSED(s->sequences[0].n_bound = UINT32_MAX; s->sequences[0].n_retiring = 2);
	REFUSED(s->sequences[0].first_binding = UINT32_MAX - 1);
	REFUSED(s->n_denials = 1; s->denials[0].tally = 0);
#undef REFUSED
}

Test(status_page, what_a_truncated_snapshot_lacks_is_marked)
{
	struct status_snapshot *s;

	open_ready();
	s = draft_small(1);
	s->truncated = 1;
	s->sequences[0].n_bound = 3;
	status_writer_commit(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert_eq(status_reader_copy(&r, out), 0);
	cr_assert_eq(out->requests[0].first_sequence, 0);
	cr_assert_eq(out->sequences[0].first_binding, STATUS_NOT_LISTED);
	cr_assert_eq(out->sequences[0].n_bound, 3);
}

/* Of what lies in the arrays beyond the draft's own entries, a reader can make something: session groups, and indices.
 */
static void cut_count(uint32_t *count, uint32_t most, const uint32_t *shown)
{
	memset(w.draft->sessions, 0, sizeof(w.draft->sessions));
	for (int i = 0; i < STATUS_MAX_SESSIONS; i++)
		w.draft->sessions[i].n_groups = 1;
	memset(w.draft->requests, 0, sizeof(w.draft->requests));
	memset(w.draft->sequences, 0, sizeof(w.draft->sequences));
	*count = most + 1;
	status_writer_commit(&w);
	cr_assert_eq(status_reader_copy(&r, out), 0, "%u", most);
	cr_expect_eq(*shown, most);
	cr_expect_eq(out->truncated, 1, "%u", most);
	*count = most;
	w.draft->truncated = 0;
	status_writer_commit(&w);
	cr_assert_eq(status_reader_copy(&r, out), 0, "%u", most);
	cr_expect_eq(*shown, most);
	cr_expect_eq(out->truncated, 0, "%u", most);
}

Test(status_page, writer_cuts_counts_that_do_not_fit)
{
	struct status_snapshot *s;

	open_ready();
	s = draft_small(1);
	status_writer_commit(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cut_count(&s->n_bindings, STATUS_MAX_BINDINGS, &out->n_bindings);
	cut_count(&s->n_sequences, STATUS_MAX_SEQUENCES, &out->n_sequences);
	cut_count(&s->n_requests, STATUS_MAX_REQUESTS, &out->n_requests);
	cut_count(&s->n_sessions, STATUS_MAX_SESSIONS, &out->n_sessions);
	cut_count(&s->n_models, STATUS_MAX_MODELS, &out->n_models);
	cut_count(&s->n_classes, STATUS_MAX_CLASSES, &out->n_classes);
}

Test(status_page, texts_are_terminated)
{
	open_ready();
	memset(draft_small(1)->sessions[0].model, 'x', WIRE_MODEL_NAME);
	status_writer_commit(&w);
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert_eq(status_reader_copy(&r, out), 0);
	cr_assert_eq(strlen(out->sessions[0].model), WIRE_MODEL_NAME - 1);
}

/* Every word of snapshot k says k, so a reader can tell a mixture. */
static shm_u32 stop;
static void *flip(void *arg)
{
	uint64_t k = 0;

	while (!load_relaxed(&stop)) {
		struct status_snapshot *s = status_writer_begin(&w);

		k++;
		s->rounds = s->commands = k;
		s->n_sessions = (uint32_t)(k % 200);
		s->n_bindings = (uint32_t)(k % 5000);
		s->n_classes = 1;
		for (uint32_t i = 0; i < s->n_sessions; i++)
			s->sessions[i] = (struct status_session){ .id = (uint32_t)k, .commands = k, .n_groups = 1 };
		for (uint32_t i = 0; i < s->n_bindings; i++)
			s->bindings[i] = (struct wire_binding){ (int32_t)k, (int32_t)k };
		status_writer_commit(&w);
	}
	return NULL;
}

static void check_one_snapshot(void)
{
	uint64_t k = out->rounds;

	cr_assert_eq(out->commands, k);
	cr_assert_eq(out->number, k);
	cr_assert_eq(out->n_sessions, k % 200);
	cr_assert_eq(out->n_bindings, k % 5000);
	for (uint32_t i = 0; i < out->n_sessions; i++)
		if (out->sessions[i].id != (uint32_t)k || out->sessions[i].commands != k)
			cr_assert_fail("session %u of snapshot %lu is of another", i, (unsigned long)k);
	for (uint32_t i = 0; i < out->n_bindings; i++)
		if (out->bindings[i].page != (int32_t)k || out->bindings[i].logical != (int32_t)k)
			cr_assert_fail("binding %u of snapshot %lu is of another", i, (unsigned long)k);
}

Test(status_page, reader_under_a_flipping_writer_gets_whole_snapshots)
{
	pthread_t t;
	int n = 0;

	open_ready();
	cr_assert_eq(status_reader_open(&r, name), 0);
	cr_assert_eq(pthread_create(&t, NULL, flip, NULL), 0);
	while (n < 3000) {
		int e = status_reader_copy(&r, out);

		if (e == -EAGAIN)
			continue;
		cr_assert_eq(e, 0);
		check_one_snapshot();
		n++;
	}
	store_relaxed(&stop, 1);
	pthread_join(t, NULL);
}
