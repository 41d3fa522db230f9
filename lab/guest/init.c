// SPDX-License-Identifier: GPL-2.0-only
/* PID 1 of the lab's guest: prepare, do the job, say the verdict, power off. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

/* The initramfs may lack /dev/console, so the kernel may have given no files at all. */
static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR);

	if (fd < 0)
		return;
	for (int i = 0; i <= 2; i++)
		if (fd != i)
			dup2(fd, i);
	if (fd > 2)
		close(fd);
}

int main(int argc, char **argv)
{
	bool done;
	int code = argc > 0 ? shell_word(argv) : -1;

	if (code >= 0)
		return code;
	if (getpid() != 1) {
		fprintf(stderr, "init: this is the lab guest's PID 1, and of no use elsewhere\n");
		return 2;
	}
	mkdir("/dev", 0755);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	open_console();
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("PATH", "/bin:/sbin:/usr/bin:/usr/sbin", 1);
	setenv("HOME", "/tmp", 1);
	setenv("CEASEFIRE_GUEST", "1", 1);
	setenv("LANG", "C", 1);
	setenv("TERM", "linux", 0);

	/* The port is found through sysfs, and what fails to mount is said there. */
	mkdir("/sys", 0755);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	port_open();
	mounts_make();
	shell_link_words();
	if (jobs_count_instructions("/job"))
		port_hold();
	jobs_mechanisms("/job");
	jobs_boot_line();
	ext2_make();
	if (jobs_use_ext4("/job"))
		ext4_make();
	disk_mount();
	loopback_up();
	done = jobs_run("/job");
	port_release();
	port_verdict(done);
	sync();
	reboot(RB_POWER_OFF);
	/* Returning from PID 1 is a panic: the host sees an end, and no second verdict. */
	return 1;
}
