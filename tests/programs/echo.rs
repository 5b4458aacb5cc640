// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// echo.rs - a Rust program between two containers, with what bindgen makes of rdma_cma.h and verbs.h: messages over an RC
// connection of rdma_cm in memory of a Vec, or over TCP. The server sends each message back, the client compares it.
//
//	echo verbs|tcp -p PORT		the server, on all addresses
//	echo verbs|tcp -p PORT ADDRESS
#![allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
use std::ffi::CString;
use std::io::{self, Error, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

include!(env!("BINDINGS"));

const SIZES: [(usize, u32); 2] = [(8, 2000), (1 << 20, 100)]; // bytes, messages

/// A connection of messages.
trait Peer {
	fn send(&mut self, len: usize) -> io::Result<()>;
	fn recv(&mut self, len: usize) -> io::Result<()>; // of exactly that length
	fn memory(&mut self) -> &mut [u8];
}

// ---- TCP ----------------------------------------------------------------------------------------

struct Tcp {
	socket: TcpStream,
	memory: Vec<u8>,
}

impl Peer for Tcp {
	fn send(&mut self, len: usize) -> io::Result<()> {
		self.socket.write_all(&self.memory[..len])
	}
	fn recv(&mut self, len: usize) -> io::Result<()> {
		self.socket.read_exact(&mut self.memory[..len])
	}
	fn memory(&mut self) -> &mut [u8] {
		&mut self.memory
	}
}

fn tcp(server: Option<&str>, port: &str) -> io::Result<Tcp> {
	let socket = match server {
		None => {
			let listener = TcpListener::bind(format!("0.0.0.0:{}", port))?;
			println!("echo: ready");
			listener.accept()?.0
		}
		Some(address) => TcpStream::connect(format!("{}:{}", address, port))?,
	};
	socket.set_nodelay(true)?;
	Ok(Tcp { socket, memory: vec![0; SIZES[1].0] })
}

// ---- verbs --------------------------------------------------------------------------------------

struct Verbs {
	id: *mut rdma_cm_id,
	mr: *mut ibv_mr,
	memory: Vec<u8>, // the first half is received into, the second one sent from
}

fn check(status: i32) -> io::Result<()> {
	match status {
		0 => Ok(()),
		-1 => Err(Error::last_os_error()),
		errno => Err(Error::from_raw_os_error(errno)),
	}
}

fn some<T>(pointer: *mut T) -> io::Result<*mut T> {
	if pointer.is_null() { Err(Error::last_os_error()) } else { Ok(pointer) }
}

impl Verbs {
	fn sge(&self, from: usize, len: usize) -> ibv_sge {
		ibv_sge { addr: self.memory.as_ptr() as u64 + from as u64, length: len as u32, lkey: unsafe { (*self.mr).lkey } }
	}

	fn post_recv(&mut self) -> io::Result<()> {
		let mut sge = self.sge(0, SIZES[1].0);
		let mut bad = std::ptr::null_mut();
		unsafe {
			let mut wr: ibv_recv_wr = std::mem::zeroed();
			wr.sg_list = &mut sge;
			wr.num_sge = 1;
			let qp = (*self.id).qp;
			check((*(*qp).context).ops.post_recv.unwrap()(qp, &mut wr, &mut bad))
		}
	}

	/// One completion, for which the thread sleeps.
	unsafe fn wait(&self, cq: *mut ibv_cq, channel: *mut ibv_comp_channel) -> io::Result<ibv_wc> {
		let ops = &(*(*cq).context).ops;
		let mut wc: ibv_wc = std::mem::zeroed();
		let mut is_armed = false;
		loop {
			match ops.poll_cq.unwrap()(cq, 1, &mut wc) {
				1 if wc.status == ibv_wc_status_IBV_WC_SUCCESS => return Ok(wc),
				0 if is_armed => {
					let (mut of, mut context) = (cq, std::ptr::null_mut());
					check(ibv_get_cq_event(channel, &mut of, &mut context))?;
					ibv_ack_cq_events(of, 1);
					is_armed = false;
				}
				0 => {
					check(ops.req_notify_cq.unwrap()(cq, 0))?;
					is_armed = true;
				}
				_ => return Err(Error::new(io::ErrorKind::Other, format!("completion with status {}", wc.status))),
			}
		}
	}
}

impl Peer for Verbs {
	fn send(&mut self, len: usize) -> io::Result<()> {
		self.memory.copy_within(0..len, SIZES[1].0);
		let mut sge = self.sge(SIZES[1].0, len);
		let mut bad = std::ptr::null_mut();
		unsafe {
			let mut wr: ibv_send_wr = std::mem::zeroed();
			wr.sg_list = &mut sge;
			wr.num_sge = 1;
			wr.opcode = ibv_wr_opcode_IBV_WR_SEND;
			wr.send_flags = ibv_send_flags_IBV_SEND_SIGNALED;
			let qp = (*self.id).qp;
			self.post_recv()?;
			check((*(*qp).context).ops.post_send.unwrap()(qp, &mut wr, &mut bad))?;
			self.wait((*self.id).send_cq, (*self.id).send_cq_channel).map(|_| ())
		}
	}
	fn recv(&mut self, len: usize) -> io::Result<()> {
		let wc = unsafe { self.wait((*self.id).recv_cq, (*self.id).recv_cq_channel)? };
		match wc.byte_len as usize == len {
			true => Ok(()),
			false => Err(Error::new(io::ErrorKind::Other, format!("{} bytes came, not {}", wc.byte_len, len))),
		}
	}
	fn memory(&mut self) -> &mut [u8] {
		&mut self.memory[..SIZES[1].0]
	}
}

impl Drop for Verbs {
	fn drop(&mut self) {
		unsafe {
			rdma_disconnect(self.id);
			ibv_dereg_mr(self.mr);
			rdma_destroy_ep(self.id);
		}
	}
}

fn verbs(server: Option<&str>, port: &str) -> io::Result<Verbs> {
	let is_server = server.is_none();
	let (node, service) = (CString::new(server.unwrap_or("0.0.0.0"))?, CString::new(port)?);
	unsafe {
		let mut hints: rdma_addrinfo = std::mem::zeroed();
		let mut attr: ibv_qp_init_attr = std::mem::zeroed();
		let mut param: rdma_conn_param = std::mem::zeroed();
		let (mut info, mut id) = (std::ptr::null_mut(), std::ptr::null_mut());
		hints.ai_port_space = rdma_port_space_RDMA_PS_TCP as i32;
		hints.ai_flags = if is_server { RAI_PASSIVE as i32 } else { 0 };
		attr.cap = ibv_qp_cap { max_send_wr: 1, max_recv_wr: 2, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
		param.rnr_retry_count = 7;
		check(rdma_getaddrinfo(node.as_ptr(), service.as_ptr(), &hints, &mut info))?;
		check(rdma_create_ep(&mut id, info, std::ptr::null_mut(), &mut attr))?;
		rdma_freeaddrinfo(info);
		if is_server {
			let listener = id;
			check(rdma_listen(listener, 1))?;
			println!("echo: ready");
			check(rdma_get_request(listener, &mut id))?;
		}
		let mut memory = vec![0u8; 2 * SIZES[1].0];
		let access = ibv_access_flags_IBV_ACCESS_LOCAL_WRITE as i32;
		let mr = some(ibv_reg_mr((*id).pd, memory.as_mut_ptr() as *mut _, memory.len() as _, access as _))?;
		let mut v = Verbs { id, mr, memory };
		v.post_recv()?;
		check(if is_server { rdma_accept(id, &mut param) } else { rdma_connect(id, &mut param) })?;
		Ok(v)
	}
}

// ---- the messages -------------------------------------------------------------------------------

fn byte(message: u32, i: usize) -> u8 {
	(message as usize * 7 + i + (i >> 8)) as u8
}

fn serve(peer: &mut dyn Peer) -> io::Result<()> {
	for (size, count) in SIZES {
		for _ in 0..count {
			peer.recv(size)?;
			peer.send(size)?;
		}
	}
	Ok(())
}

fn ask(peer: &mut dyn Peer) -> io::Result<()> {
	for (size, count) in SIZES {
		let mut seconds = 0.0;
		for m in 0..count {
			peer.memory()[..size].iter_mut().enumerate().for_each(|(i, b)| *b = byte(m, i));
			let begin = Instant::now();
			peer.send(size)?;
			peer.recv(size)?;
			seconds += begin.elapsed().as_secs_f64();
			if peer.memory()[..size].iter().enumerate().any(|(i, b)| *b != byte(m, i)) {
				return Err(Error::new(io::ErrorKind::Other, "another message came back"));
			}
		}
		let n = f64::from(count);
		println!("echo: {} messages of {} bytes: {:.0} us, {:.0} MB/s", count, size, seconds / n / 2.0 * 1e6,
			2.0 * n * size as f64 / seconds / 1e6);
	}
	Ok(())
}

fn main() -> io::Result<()> {
	let arg: Vec<String> = std::env::args().collect();
	let (port, server) = (&arg[3], arg.get(4).map(String::as_str));
	let mut peer: Box<dyn Peer> = match arg[1].as_str() {
		"tcp" => Box::new(tcp(server, port)?),
		_ => Box::new(verbs(server, port)?),
	};
	if server.is_none() { serve(&mut *peer) } else { ask(&mut *peer) }
}
