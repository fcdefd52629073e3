/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_name.h - who has the name of a status page
 *
 * The broker that lives under a name holds a write lock (open file description
 * lock) on the object behind it. Readers can hold read locks only, which mean
 * nothing and stop nobody.
 */
#ifndef SWAKV_STATUS_NAME_H
#define SWAKV_STATUS_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "wire.h"

#define STATUS_NAME (WIRE_NAME + 8)

/* Writes the shm name of instance @instance to @name; -EINVAL when it could mean another file. */
int status_name_format(char name[STATUS_NAME], const char *instance);

/*
 * Makes a fresh, empty object (mode 0600) under @name, locked; a dead broker's
 * is replaced, and whoever reads that keeps it. Returns its descriptor, or
 * -EEXIST: a live broker holds the name; -EPERM: an object of another user, or
 * no plain file, stands there, or where the start lock goes; -EBUSY: another
 * broker of that name is just starting; other negative errno: the system call's.
 */
int status_name_take(const char *name);
/* The same for the broker that holds @fd, whose object has come to harm: its own is replaced. @fd stays open. */
int status_name_retake(const char *name, int fd);
/* Unlinks @name, but only while it means the object of @fd. */
void status_name_drop(const char *name, int fd);

/* True while somebody holds the write lock on the object of @fd. */
bool status_name_held(int fd);

#endif
