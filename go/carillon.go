// Package carillon sends and receives messages and files over reliable multicast.
//
// It calls the C library, which `make install-lib` installs. With the library in another place, set CGO_CFLAGS and
// CGO_LDFLAGS to its directories. Each object may be used by one goroutine at a time.
package carillon

/*
#cgo LDFLAGS: -lcarillon_c
#include <stdlib.h>
#include <carillon.h>
*/
import "C"

import (
	"errors"
	"io"
	"runtime"
	"time"
	"unsafe"
)

// ErrTimeout says that no message came within the time. The session goes on.
var ErrTimeout = errors.New("carillon: no message within the time")

// Option is a setting by key and value, as carillon_set in carillon.h explains.
type Option struct{ Key, Value string }

// Config holds the settings of an endpoint. Group is an address and a port, such as "239.1.2.3:4567".
type Config struct {
	Group     string
	Interface string // one or several, separated by commas; the interface of the route to the group if empty
	Name      string // the host name if empty
	Options   []Option
}

// Row is the result at one receiver, or from one sender.
type Row struct{ Name, Result, Reason string }

// Report is the result of a transfer of files.
type Report struct {
	Complete bool // everything arrived, at a sender at all receivers
	Failure  string
	Bytes    uint64
	Rows     []Row
}

// text returns a C string, NULL for an empty one.
func text(s string) *C.char {
	if s == "" {
		return nil
	}
	return C.CString(s)
}

// free frees what text returned.
func free(s *C.char) { C.free(unsafe.Pointer(s)) }

func lastError() error { return errors.New("carillon: " + C.GoString(C.carillon_error())) }

// names are the C strings of a Config.
type names struct{ group, iface, name *C.char }

// with calls act with the settings of a Config. Options and errors belong to a thread, so the goroutine keeps its own.
func (config Config) with(act func(names) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	C.carillon_set(nil, nil)
	defer C.carillon_set(nil, nil)
	for _, option := range config.Options {
		key, value := C.CString(option.Key), C.CString(option.Value)
		status := C.carillon_set(key, value)
		free(key)
		free(value)
		if status != 0 {
			return lastError()
		}
	}
	n := names{text(config.Group), text(config.Interface), text(config.Name)}
	defer func() { free(n.group); free(n.iface); free(n.name) }()
	return act(n)
}

// SendFiles sends files and directories. The options say for which receivers it waits, such as {"receivers", "2"}.
func SendFiles(config Config, paths ...string) (report *Report, err error) {
	if len(paths) == 0 {
		return nil, errors.New("carillon: there are no paths")
	}
	size := C.size_t(len(paths)) * C.size_t(unsafe.Sizeof((*C.char)(nil)))
	list := unsafe.Slice((**C.char)(C.malloc(size)), len(paths))
	defer C.free(unsafe.Pointer(&list[0]))
	for i, path := range paths {
		list[i] = C.CString(path)
		defer free(list[i])
	}
	err = config.with(func(n names) error {
		report, err = reported(C.carillon_send_files(n.group, n.iface, n.name, &list[0], C.size_t(len(paths))))
		return err
	})
	return report, err
}

// ReceiveFiles receives one transfer of files into a directory.
func ReceiveFiles(config Config, directory string) (report *Report, err error) {
	into := C.CString(directory)
	defer free(into)
	err = config.with(func(n names) error {
		report, err = reported(C.carillon_receive_files(n.group, n.iface, n.name, into))
		return err
	})
	return report, err
}

// reported copies a report and frees it.
func reported(report *C.carillon_report) (*Report, error) {
	if report == nil {
		return nil, lastError()
	}
	defer C.carillon_report_free(report)
	result := &Report{
		Complete: C.carillon_report_complete(report) == 1,
		Failure:  C.GoString(C.carillon_report_failure(report)),
		Bytes:    uint64(C.carillon_report_bytes(report)),
	}
	for row := C.size_t(0); row < C.carillon_report_rows(report); row++ {
		result.Rows = append(result.Rows, Row{
			Name:   C.GoString(C.carillon_report_name(report, row)),
			Result: C.GoString(C.carillon_report_result(report, row)),
			Reason: C.GoString(C.carillon_report_reason(report, row)),
		})
	}
	return result, nil
}

// Sender sends messages to a group.
type Sender struct{ sender *C.carillon_sender }

// Connect opens a session as its sender. It starts when the receivers of the options have joined.
func Connect(config Config) (sender *Sender, err error) {
	err = config.with(func(n names) error {
		opened := C.carillon_connect(n.group, n.iface, n.name, nil, 0)
		if opened == nil {
			return lastError()
		}
		sender = &Sender{opened}
		return nil
	})
	return sender, err
}

// Send sends a message of at most 16 MiB. It blocks while the send queue is full.
func (s *Sender) Send(message []byte) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var first unsafe.Pointer
	if len(message) > 0 {
		first = unsafe.Pointer(&message[0])
	}
	if C.carillon_send(s.sender, first, C.size_t(len(message))) != 0 {
		return lastError()
	}
	return nil
}

// Close waits until every receiver has all messages or was expelled. It returns the number of receivers that miss
// messages or did not join. The sender cannot be used afterwards.
func (s *Sender) Close() (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	missing := C.carillon_close(s.sender)
	s.sender = nil
	if missing < 0 {
		return 0, lastError()
	}
	return int(missing), nil
}

// Abort ends the session without waiting. The sender cannot be used afterwards.
func (s *Sender) Abort() {
	C.carillon_abort(s.sender)
	s.sender = nil
}

// Listener has the sockets of a receiver.
type Listener struct{ listener *C.carillon_listener }

// Listen opens the sockets of a receiver.
func Listen(config Config) (listener *Listener, err error) {
	err = config.with(func(n names) error {
		opened := C.carillon_listen(n.group, n.iface, n.name)
		if opened == nil {
			return lastError()
		}
		listener = &Listener{opened}
		return nil
	})
	return listener, err
}

// Accept waits for a session and joins it. The session before must be over.
func (l *Listener) Accept() (*Session, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	session := C.carillon_accept(l.listener)
	if session == nil {
		return nil, lastError()
	}
	return &Session{session: session, buffer: make([]byte, 1<<16)}, nil
}

// Close frees the listener. Accepted sessions continue.
func (l *Listener) Close() {
	C.carillon_listener_free(l.listener)
	l.listener = nil
}

// Session is a session that a listener has joined.
type Session struct {
	session *C.carillon_session
	buffer  []byte
}

// Recv returns the next message and the name of its sender. After the last message the error is io.EOF.
func (s *Session) Recv() (message []byte, sender string, err error) {
	return s.received(func(buffer unsafe.Pointer, size C.size_t) C.int64_t {
		return C.carillon_recv(s.session, buffer, size)
	})
}

// RecvTimeout is like Recv, but returns ErrTimeout after this time.
func (s *Session) RecvTimeout(wait time.Duration) (message []byte, sender string, err error) {
	milliseconds := C.uint32_t(min(max(wait.Milliseconds(), 0), 1<<32-1))
	return s.received(func(buffer unsafe.Pointer, size C.size_t) C.int64_t {
		return C.carillon_recv_within(s.session, buffer, size, milliseconds)
	})
}

// Descriptor returns a descriptor for poll or epoll, which belongs to the session. It becomes readable when a message or
// the end is there, and stays so until RecvTimeout(0) has returned ErrTimeout. Do not read from it, and do not close it.
func (s *Session) Descriptor() (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	descriptor := C.carillon_descriptor(s.session)
	if descriptor < 0 {
		return 0, lastError()
	}
	return int(descriptor), nil
}

func (s *Session) received(call func(unsafe.Pointer, C.size_t) C.int64_t) ([]byte, string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		length := call(unsafe.Pointer(&s.buffer[0]), C.size_t(len(s.buffer)))
		switch {
		case length >= 0:
			message := append([]byte(nil), s.buffer[:length]...)
			return message, C.GoString(C.carillon_from(s.session)), nil
		case length == C.CARILLON_TOO_LONG:
			s.buffer = make([]byte, C.carillon_next(s.session))
		case length == C.CARILLON_TIMEOUT:
			return nil, "", ErrTimeout
		case length == C.CARILLON_END:
			return nil, "", io.EOF
		default:
			return nil, "", lastError()
		}
	}
}

// Close leaves the session if it is not over, and frees it.
func (s *Session) Close() {
	C.carillon_session_free(s.session)
	s.session = nil
}
