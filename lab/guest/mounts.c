// SPDX-License-Identifier: GPL-2.0-only
/* File systems, the ext2 disk and the loopback device. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

#define BLOCK_BYTES 4096

void mounts_make(void)
{
	static const struct {
		const char *type, *path, *data;
	} mounts[] = {
		{ "proc", "/proc", NULL },
		{ "devpts", "/dev/pts", NULL },
		{ "debugfs", "/sys/kernel/debug", NULL },
		{ "tracefs", "/sys/kernel/tracing", NULL },
		{ "cgroup2", "/sys/fs/cgroup", NULL },
		{ "tmpfs", "/dev/shm", "mode=1777" },
		{ "tmpfs", "/tmp", "mode=1777" },
		{ "tmpfs", "/run", "mode=0755" },
	};

	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		mkdir(mounts[i].path, 0755);
		if (mount(mounts[i].type, mounts[i].path, mounts[i].type, 0, mounts[i].data))
			port_log("%s is not mounted: %s", mounts[i].path, strerror(errno));
	}
	/* Most of our kernels have none. */
	if (!access("/sys/kernel/security", F_OK))
		mount("securityfs", "/sys/kernel/security", "securityfs", 0, NULL);
}

static bool read_exactly(int fd, void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = read(fd, (char *)buffer + done, size - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

/* The host made the file system; only its blocks that are not zero came along. */
void ext2_make(void)
{
	struct {
		uint64_t offset;
		char block[BLOCK_BYTES];
	} piece;
	int in = open("/ext2.blocks", O_RDONLY | O_CLOEXEC), out;
	const char *failed = NULL;

	if (in < 0)
		return;
	out = open("/dev/ram0", O_WRONLY | O_CLOEXEC);
	if (out < 0)
		failed = "open /dev/ram0";
	while (!failed && read_exactly(in, &piece, sizeof(piece)))
		if (pwrite(out, piece.block, BLOCK_BYTES, (off_t)piece.offset) != BLOCK_BYTES)
			failed = "write /dev/ram0";
	close(in);
	if (out >= 0 && close(out) && !failed)
		failed = "close /dev/ram0";
	mkdir("/ext2", 0755);
	if (!failed && mount("/dev/ram0", "/ext2", "ext2", 0, NULL))
		failed = "mount it";
	if (failed)
		port_log("/ext2 is not there (%s: %s)", failed, strerror(errno));
	unlink("/ext2.blocks");
}

void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	/* The kernel gives it 127.0.0.1 by itself. */
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(fd, SIOCSIFFLAGS, &request))
		port_log("the loopback device is down: %s", strerror(errno));
	close(fd);
}
