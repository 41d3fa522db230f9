// SPDX-License-Identifier: GPL-2.0-only
/* Whole small files, without stdio: no allocation while anything is measured. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

ssize_t file_read(const char *path, char *buffer, size_t size)
{
	size_t length = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	buffer[0] = '\0';
	if (fd < 0)
		return -errno;
	while (length < size - 1) {
		ssize_t got = read(fd, buffer + length, size - 1 - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	close(fd);
	buffer[length] = '\0';
	return (ssize_t)length;
}

uint64_t file_kib(const char *path, const char *word, uint64_t fallback)
{
	char text[8192];
	const char *found = file_read(path, text, sizeof(text)) > 0 ? strstr(text, word) : NULL;

	return found ? strtoull(found + strlen(word), NULL, 10) : fallback;
}

int file_write(const char *path, const char *text)
{
	size_t length = strlen(text);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t put;
	int error = 0;

	if (fd < 0)
		return -errno;
	put = write(fd, text, length);
	if (put < 0)
		error = -errno;
	else if ((size_t)put != length)
		error = -EIO;
	close(fd);
	return error;
}
