// SPDX-License-Identifier: GPL-2.0-only

// Gives pages back from three functions deep, while a goroutine spins.
package main

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const bytes = 16 * 4096

//go:noinline
func stormInner(area []byte) {
	for at := 0; at < bytes; at += 4096 {
		area[at] = 1
	}
	if err := syscall.Madvise(area, syscall.MADV_DONTNEED); err != nil {
		panic(err)
	}
}

//go:noinline
func stormMiddle(area []byte) { stormInner(area) }

//go:noinline
func stormOuter(area []byte, rounds int) {
	for round := 0; round < rounds; round++ {
		stormMiddle(area)
	}
}

func main() {
	rounds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	area, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		panic(err)
	}
	var isOver atomic.Bool
	go func() {
		for !isOver.Load() {
		}
	}()
	stormOuter(area, rounds)
	isOver.Store(true)
	time.Sleep(3 * time.Second) // the observer looks for names once a second
}
