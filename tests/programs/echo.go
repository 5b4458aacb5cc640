// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

// echo.go - a Go program between two containers, by cgo: messages over an RC connection of rdma_cm in memory that Go has
// mapped, or over TCP. The server sends each message back, the client compares it. Goroutines sleep in
// ibv_get_cq_event(), and the threads on which they run change.
//
//	echo verbs|tcp -p PORT		the server, on all addresses
//	echo verbs|tcp -p PORT ADDRESS
package main

/*
#cgo LDFLAGS: -lrdmacm -libverbs
#include <errno.h>
#include <stdlib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

// What the headers have as inline functions, which Go calls by a C function only.
static int post_recv(struct rdma_cm_id *id, void *buf, size_t len, struct ibv_mr *mr)
{
	return rdma_post_recv(id, NULL, buf, len, mr);
}

static int post_send(struct rdma_cm_id *id, void *buf, size_t len, struct ibv_mr *mr)
{
	return rdma_post_send(id, NULL, buf, len, mr, IBV_SEND_SIGNALED);
}

static int wait_recv(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return rdma_get_recv_comp(id, wc);
}

static int wait_send(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return rdma_get_send_comp(id, wc);
}

static struct ibv_mr *reg(struct rdma_cm_id *id, void *buf, size_t len)
{
	return rdma_reg_msgs(id, buf, len);
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const largest = 1 << 20

var sizes = []struct{ bytes, messages int }{{8, 2000}, {largest, 100}}

// A connection of messages.
type peer interface {
	send(message []byte) error
	recv(length int) ([]byte, error) // of exactly that length
}

// ---- TCP

type overTCP struct {
	net.Conn
	memory []byte
}

func (t overTCP) send(message []byte) error {
	_, err := t.Write(message)
	return err
}

func (t overTCP) recv(length int) ([]byte, error) {
	_, err := io.ReadFull(t, t.memory[:length])
	return t.memory[:length], err
}

func dialTCP(isServer bool, address, port string) (peer, error) {
	at := net.JoinHostPort(address, port)
	if !isServer {
		c, err := net.Dial("tcp", at)
		return overTCP{c, make([]byte, largest)}, err
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	fmt.Println("echo: ready")
	c, err := l.Accept()
	return overTCP{c, make([]byte, largest)}, err
}

// ---- verbs

type completion struct {
	length int
	err    error
}

type overVerbs struct {
	id       *C.struct_rdma_cm_id
	mr       *C.struct_ibv_mr
	memory   []byte // the first half is received into, the second one sent from
	received chan completion
}

func (v *overVerbs) post() error {
	if n, err := C.post_recv(v.id, unsafe.Pointer(&v.memory[0]), largest, v.mr); n != 0 {
		return fmt.Errorf("post_recv: %v", err)
	}
	return nil
}

func (v *overVerbs) send(message []byte) error {
	copy(v.memory[largest:], message)
	if err := v.post(); err != nil {
		return err
	}
	if n, err := C.post_send(v.id, unsafe.Pointer(&v.memory[largest]), C.size_t(len(message)), v.mr); n != 0 {
		return fmt.Errorf("post_send: %v", err)
	}
	var wc C.struct_ibv_wc
	if n, err := C.wait_send(v.id, &wc); n < 1 || wc.status != C.IBV_WC_SUCCESS {
		return fmt.Errorf("send: status %d, %v", wc.status, err)
	}
	return nil
}

func (v *overVerbs) receive() {
	for {
		var wc C.struct_ibv_wc
		n, err := C.wait_recv(v.id, &wc)
		if n < 1 || wc.status != C.IBV_WC_SUCCESS {
			v.received <- completion{0, fmt.Errorf("receive: status %d, %v", wc.status, err)}
			return
		}
		v.received <- completion{int(wc.byte_len), nil}
	}
}

func (v *overVerbs) recv(length int) ([]byte, error) {
	c := <-v.received
	if c.err == nil && c.length != length {
		c.err = fmt.Errorf("%d bytes came, not %d", c.length, length)
	}
	return v.memory[:length], c.err
}

func dialVerbs(isServer bool, address, port string) (peer, error) {
	node, service := C.CString(address), C.CString(port)
	defer C.free(unsafe.Pointer(node))
	defer C.free(unsafe.Pointer(service))
	hints := C.struct_rdma_addrinfo{ai_port_space: C.RDMA_PS_TCP}
	if isServer {
		hints.ai_flags = C.RAI_PASSIVE
	}
	var info *C.struct_rdma_addrinfo
	if n, err := C.rdma_getaddrinfo(node, service, &hints, &info); n != 0 {
		return nil, fmt.Errorf("rdma_getaddrinfo: %v", err)
	}
	defer C.rdma_freeaddrinfo(info)
	var id *C.struct_rdma_cm_id
	attr := C.struct_ibv_qp_init_attr{}
	attr.cap = C.struct_ibv_qp_cap{max_send_wr: 1, max_recv_wr: 2, max_send_sge: 1, max_recv_sge: 1}
	if n, err := C.rdma_create_ep(&id, info, nil, &attr); n != 0 {
		return nil, fmt.Errorf("rdma_create_ep: %v", err)
	}
	if isServer {
		listener := id
		if n, err := C.rdma_listen(listener, 1); n != 0 {
			return nil, fmt.Errorf("rdma_listen: %v", err)
		}
		fmt.Println("echo: ready")
		if n, err := C.rdma_get_request(listener, &id); n != 0 {
			return nil, fmt.Errorf("rdma_get_request: %v", err)
		}
	}
	memory, err := syscall.Mmap(-1, 0, 2*largest, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	mr, err := C.reg(id, unsafe.Pointer(&memory[0]), 2*largest)
	if mr == nil {
		return nil, fmt.Errorf("rdma_reg_msgs: %v", err)
	}
	v := &overVerbs{id, mr, memory, make(chan completion, 2)}
	if err := v.post(); err != nil {
		return nil, err
	}
	param := C.struct_rdma_conn_param{rnr_retry_count: 7}
	var n C.int
	if isServer {
		n, err = C.rdma_accept(id, &param)
	} else {
		n, err = C.rdma_connect(id, &param)
	}
	if n != 0 {
		return nil, fmt.Errorf("the connection: %v", err)
	}
	go v.receive()
	return v, nil
}

// ---- the messages

func serve(p peer) error {
	for _, s := range sizes {
		for i := 0; i < s.messages; i++ {
			message, err := p.recv(s.bytes)
			if err == nil {
				err = p.send(message)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func ask(p peer) error {
	for _, s := range sizes {
		var took time.Duration
		message := make([]byte, s.bytes)
		for i := 0; i < s.messages; i++ {
			for k := range message {
				message[k] = byte(i*7 + k + k>>8)
			}
			begin := time.Now()
			if err := p.send(message); err != nil {
				return err
			}
			back, err := p.recv(s.bytes)
			if err != nil {
				return err
			}
			took += time.Since(begin)
			if !bytes.Equal(back, message) {
				return fmt.Errorf("another message came back")
			}
		}
		n := float64(s.messages)
		fmt.Printf("echo: %d messages of %d bytes: %.0f us, %.0f MB/s\n", s.messages, s.bytes,
			took.Seconds()/n/2*1e6, 2*n*float64(s.bytes)/took.Seconds()/1e6)
	}
	return nil
}

func main() {
	dial, run, address := dialVerbs, serve, "0.0.0.0"
	if os.Args[1] == "tcp" {
		dial = dialTCP
	}
	if len(os.Args) > 4 {
		run, address = ask, os.Args[4]
	}
	p, err := dial(len(os.Args) == 4, address, os.Args[3])
	if err == nil {
		err = run(p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}
