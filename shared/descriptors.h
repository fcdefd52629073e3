/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors.h - descriptors 0 to 2 are standard input, output and error, and nothing else
 *
 * A process may be started, or go on, without some of them. The next file that
 * it opens gets such a number, and what is printed then goes into that file.
 */
#ifndef SWAKV_DESCRIPTORS_H
#define SWAKV_DESCRIPTORS_H

/*
 * For main(), before anything is opened: what is closed of 0 to 2 becomes
 * /dev/null. Standard output opens it for reading only: what is printed there
 * is lost, and whoever checks that is to be told. Ends the process with @code
 * when /dev/null cannot be opened.
 */
void descriptors_fill_standard(int code);

/*
 * For a library, whose process may have closed them on purpose: @fd, or a
 * duplicate (close-on-exec) of a number above 2 in place of it. -1 with errno
 * when there is none, and then @fd is closed; a negative @fd stays what it is.
 */
int descriptor_raise(int fd);

#endif
