// SPDX-License-Identifier: GPL-2.0-only
/* File systems: the ext2 and ext4 disks, the host's disk; and the loopback device. */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

#define BLOCK_BYTES 4096
#define EXT4_BLOCKS "/ext4.blocks"
#define EXT4_IMAGE "/run/ext4.image"
/* As lab/artifacts/src/images.rs makes it. */
#define EXT4_BYTES (64 << 20)

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

/* The host made the file system; only its blocks that are not zero came along. Return: what failed, or NULL. */
static const char *unpack(const char *blocks, const char *device)
{
	struct {
		uint64_t offset;
		char block[BLOCK_BYTES];
	} piece;
	int in = open(blocks, O_RDONLY | O_CLOEXEC), out;
	const char *failed = NULL;

	if (in < 0)
		return "open its blocks";
	out = open(device, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (out < 0)
		failed = "open its device";
	while (!failed && read_exactly(in, &piece, sizeof(piece)))
		if (pwrite(out, piece.block, BLOCK_BYTES, (off_t)piece.offset) != BLOCK_BYTES)
			failed = "write its device";
	close(in);
	if (out >= 0 && close(out) && !failed)
		failed = "close its device";
	unlink(blocks);
	return failed;
}

static const char *mount_at(const char *device, const char *path, const char *type)
{
	mkdir(path, 0755);
	return mount(device, path, type, 0, NULL) ? "mount it" : NULL;
}

static void say(const char *path, const char *failed)
{
	if (failed)
		port_log("%s is not there (%s: %s)", path, failed, strerror(errno));
}

void ext2_make(void)
{
	const char *failed;

	if (access("/ext2.blocks", F_OK))
		return;
	failed = unpack("/ext2.blocks", "/dev/ram0");
	say("/ext2", failed ? failed : mount_at("/dev/ram0", "/ext2", "ext2"));
}

/* Of a file. Return: what failed, or NULL. */
static const char *loop_device(const char *path, char *device, size_t size)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	int file = -1, fd = -1;
	bool is_set = false;

	if (control >= 0)
		close(control);
	if (number >= 0) {
		snprintf(device, size, "/dev/loop%d", number);
		fd = open(device, O_RDWR | O_CLOEXEC);
		file = open(path, O_RDWR | O_CLOEXEC);
		is_set = fd >= 0 && file >= 0 && ftruncate(file, EXT4_BYTES) == 0 && ioctl(fd, LOOP_SET_FD, file) == 0;
	}
	if (file >= 0)
		close(file);
	if (fd >= 0)
		close(fd);
	return is_set ? NULL : "set up a loop device";
}

/* A journal and two kernel threads that most runs have no use for: only where the job speaks of it. */
void ext4_make(void)
{
	char device[32];
	const char *failed;

	/* A kernel that has one of the two has no ext4 of ours: nothing is wrong. */
	if (access("/sys/fs/ext4", F_OK) || access("/dev/loop-control", F_OK) || access(EXT4_BLOCKS, F_OK))
		return;
	failed = unpack(EXT4_BLOCKS, EXT4_IMAGE);
	if (!failed)
		failed = loop_device(EXT4_IMAGE, device, sizeof(device));
	say("/ext4", failed ? failed : mount_at(device, "/ext4", "ext4"));
}

/* The host's file, where the machine has a disk. */
void disk_mount(void)
{
	if (access("/dev/vda", F_OK))
		return;
	mkdir("/disk", 0755);
	if (mount("/dev/vda", "/disk", "ext4", 0, "data=ordered"))
		port_log("/disk is not there: %s", strerror(errno));
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
