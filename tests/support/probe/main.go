// Command probe is the smallest pod to test a network with: `serve` answers on port 8000,
// `get URL` prints an answer.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) == 2 && words[0] == "get" {
		return get(words[1])
	}
	if len(words) != 1 || words[0] != "serve" {
		return fmt.Errorf("usage: probe serve | probe get URL")
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return http.ListenAndServe(":8000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, name)
	}))
}

func get(url string) error {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
