# SPDX-License-Identifier: GPL-2.0-only
# The lab's PowerPC: one board and the devices its guest uses. The rest of
# what the board needs comes in by itself; everything optional stays out.

# Power Macintosh G3: Grackle PCI, Heathrow interrupts, ESCC console, 6522 and CUDA
CONFIG_MAC_OLDWORLD=y
# the board's default display
CONFIG_VGA_PCI=y
# the verdict's channel (virtserialport)
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_SERIAL=y
# a disk that the host can look at
CONFIG_VIRTIO_BLK=y
