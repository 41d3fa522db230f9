// SPDX-License-Identifier: GPL-2.0-only
// Goroutines that make blocks, while what is dropped is given back to the kernel. blocks ROUNDS; prints each round's sum.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
)

func work(own, round int) int {
	sum := 0
	blocks := make([][]byte, 0, 128)
	for i := 0; i < 128; i++ {
		block := make([]byte, 256<<10)
		for at := 0; at < len(block); at += 4096 {
			block[at] = byte(own + round + i)
		}
		blocks = append(blocks, block)
	}
	for _, block := range blocks {
		sum += int(block[8192])
	}
	return sum
}

func main() {
	runtime.GOMAXPROCS(4)
	rounds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		os.Exit(2)
	}
	for round := 0; round < rounds; round++ {
		var group sync.WaitGroup
		sums := make([]int, 2)
		for own := range sums {
			group.Add(1)
			go func(own int) {
				defer group.Done()
				sums[own] = work(own, round)
			}(own)
		}
		group.Wait()
		fmt.Println("round", round, sums[0]+sums[1])
		debug.FreeOSMemory()
	}
}
