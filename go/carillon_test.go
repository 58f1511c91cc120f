package carillon

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// group is the multicast group that the caller of the tests has chosen.
func group(t *testing.T) Config {
	address := os.Getenv("CARILLON_GROUP")
	if address == "" {
		t.Skip("CARILLON_GROUP names no multicast group that loopback carries")
	}
	return Config{Group: address, Interface: "lo"}
}

func TestFilesArrive(t *testing.T) {
	config := group(t)
	source, target := t.TempDir(), t.TempDir()
	content := bytes.Repeat([]byte("carillon"), 50_000)
	file := filepath.Join(source, "f")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	received := make(chan *Report)
	go func() {
		receiver := config
		receiver.Name = "r1"
		report, err := ReceiveFiles(receiver, target)
		if err != nil {
			t.Error(err)
		}
		received <- report
	}()
	config.Options = []Option{{"expect", "r1"}, {"rate", "80000000"}}
	report, err := SendFiles(config, file)
	if err != nil || !report.Complete || report.Bytes != uint64(len(content)) {
		t.Fatal(report, err)
	}
	if len(report.Rows) != 1 || report.Rows[0] != (Row{"r1", "verified", ""}) {
		t.Fatal(report.Rows)
	}
	if got := <-received; got == nil || !got.Complete || len(got.Rows) != 1 {
		t.Fatal(got)
	}
	if got, err := os.ReadFile(filepath.Join(target, "f")); err != nil || !bytes.Equal(got, content) {
		t.Fatal("the file differs", err)
	}
}

func TestMessagesArriveAndTimeoutsAreNoEnd(t *testing.T) {
	config := group(t)
	listener, err := Listen(config)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	long := bytes.Repeat([]byte{7}, 200_000)
	proceed, sent := make(chan bool), make(chan error)
	go func() {
		sender := config
		sender.Name, sender.Options = "s", []Option{{"receivers", "1"}}
		to, err := Connect(sender)
		if err != nil {
			sent <- err
			return
		}
		<-proceed
		for _, message := range [][]byte{[]byte("one"), {}, long} {
			if err := to.Send(message); err != nil {
				t.Error(err)
			}
		}
		missing, err := to.Close()
		if missing != 0 {
			t.Error(missing)
		}
		sent <- err
	}()
	session, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	descriptor, err := session.Descriptor()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := session.RecvTimeout(10 * time.Millisecond); !errors.Is(err, ErrTimeout) {
		t.Fatal(err)
	}
	if readable(t, descriptor, 0) {
		t.Fatal("readable without a message")
	}
	proceed <- true
	if !readable(t, descriptor, 10*time.Second) {
		t.Fatal("not readable with a message")
	}
	for _, expected := range [][]byte{[]byte("one"), {}, long} {
		message, sender, err := session.Recv()
		if err != nil || sender != "s" || !bytes.Equal(message, expected) {
			t.Fatal(len(message), sender, err)
		}
	}
	if _, _, err := session.RecvTimeout(10 * time.Second); err != io.EOF {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// readable waits until a descriptor can be read.
func readable(t *testing.T, descriptor int, wait time.Duration) bool {
	var set syscall.FdSet
	set.Bits[descriptor/64] |= 1 << (descriptor % 64)
	timeout := syscall.NsecToTimeval(wait.Nanoseconds())
	count, err := syscall.Select(descriptor+1, &set, nil, nil, &timeout)
	if err != nil {
		t.Fatal(err)
	}
	return count == 1
}

func TestWrongOptionsAreErrors(t *testing.T) {
	for _, option := range []Option{{"colour", "red"}, {"rate", "fast"}, {"group", "239.1.2.3:1"}, {"key_file", "/nonexistent"}} {
		_, err := Listen(Config{Group: "239.254.1.2:9999", Options: []Option{option}})
		if err == nil {
			t.Fatal(option)
		}
		t.Log(err)
	}
	if _, err := SendFiles(Config{Group: "239.254.1.2:9999"}); err == nil {
		t.Fatal("no paths")
	}
}
