# SPDX-License-Identifier: GPL-2.0-only
# The lab's computer: one PC board and the devices its guest uses. The rest of
# what the board needs comes in by itself; everything optional stays out.

# ACPI and NUMA tables, PCI, 8250 console
CONFIG_I440FX=y
# the verdict's channel (virtserialport)
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_SERIAL=y
# ACPI power management timer and the TSC's calibration
CONFIG_HPET=y
# a disk that the host can look at (tests/run promises)
CONFIG_VIRTIO_BLK=y
