//! The sockets of `carillon-transfer` for programs in C: `include/carillon.h` says what each function does.
//!
//! This crate has `unsafe`: pointers come from C. A function trusts what the header asks of its caller, that
//! pointers are those which it was given or lead to as many bytes as is said, and nothing else; NULL and strings that are no
//! UTF-8 are errors. A panic does not get past these functions.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Display;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::slice;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use carillon_transfer::Key;
use carillon_transfer::daemon::default_path;
use carillon_transfer::socket::{Inbound, Listener, Message, Outbound, Socket, Timed, bind};

mod files;

pub use files::*;

/// A sender: see the header.
#[derive(Debug)]
#[allow(non_camel_case_types)]
pub struct carillon_sender(Outbound);

/// A receiver's sockets: see the header.
#[derive(Debug)]
#[allow(non_camel_case_types)]
pub struct carillon_listener(Listener);

/// A session at a receiver: see the header.
#[derive(Debug)]
#[allow(non_camel_case_types)]
pub struct carillon_session {
    inbound: Inbound,
    /// Message that did not fit into the caller's buffer.
    next: Option<Message>,
    from: CString,
    /// Descriptor that the program polls, if it has asked for one.
    descriptor: Option<OwnedFd>,
}

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
    /// Options for endpoints that this thread opens, as keys and values.
    static OPTIONS: RefCell<Vec<(String, String)>> = RefCell::default();
}

const STATUS_END: i64 = -1;
const STATUS_FAILED: i64 = -2;
const STATUS_TOO_LONG: i64 = -3;
const STATUS_TIMEOUT: i64 = -4;

/// Daemon for sockets that are opened from now on; `None` for sockets of this process.
static DAEMON: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Selects the daemon for new sockets: see the header.
///
/// # Safety
/// `daemon` is NULL or ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_through(daemon: *const c_char) -> c_int {
    guarded(STATUS_FAILED as c_int, || {
        // SAFETY: the caller gives a string as this function asks for it.
        let path = unsafe { text(daemon)? }.map(|path| match path {
            "" => default_path(),
            path => path.into(),
        });
        *DAEMON.lock().unwrap_or_else(PoisonError::into_inner) = path;
        Ok(0)
    })
}

/// Sets an option for endpoints that this thread opens: see the header.
///
/// # Safety
/// Strings are NULL or end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_set(key: *const c_char, value: *const c_char) -> c_int {
    guarded(STATUS_FAILED as c_int, || {
        // SAFETY: the caller gives strings as this function asks for them.
        let (key, value) = unsafe { (text(key)?, text(value)?) };
        let Some(key) = key else {
            OPTIONS.take();
            return Ok(0);
        };
        let value = value.ok_or("there is no value: NULL")?;
        // A wrong option is reported here, and not where it is used.
        with(bind(([239, 255, 67, 65], 7654).into()), key, value)?;
        OPTIONS.with_borrow_mut(|options| options.push((key.to_owned(), value.to_owned())));
        Ok(0)
    })
}

/// Opens a session as its sender: see the header.
///
/// # Safety
/// Strings are NULL or end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_connect(
    group: *const c_char,
    interface: *const c_char,
    name: *const c_char,
    protocol: *const c_char,
    receivers: usize,
) -> *mut carillon_sender {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the caller gives strings as this function asks for them.
        let (socket, protocol) = unsafe { (socket(group, interface, name)?, text(protocol)?) };
        let socket = match protocol {
            Some(protocol) => socket.protocol(protocol),
            None => socket,
        };
        let socket = if receivers > 0 { socket.receivers(receivers) } else { socket };
        let outbound = socket.connect().map_err(said)?;
        Ok(Box::into_raw(Box::new(carillon_sender(outbound))))
    })
}

/// Sends a message: see the header.
///
/// # Safety
/// `sender` is NULL or was connected and not closed; `message` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_send(
    sender: *mut carillon_sender,
    message: *const u8,
    length: usize,
) -> c_int {
    guarded(STATUS_FAILED as c_int, || {
        // SAFETY: it is NULL or made by `carillon_connect`, and used by this thread alone, as the header asks.
        let sender = unsafe { sender.as_mut() }.ok_or("there is no sender: NULL")?;
        if length > carillon_transfer::socket::MAX_MESSAGE_LEN || (message.is_null() && length > 0) {
            return Err("a message is longer than 16 MiB, or NULL".to_owned());
        }
        let bytes = match length {
            0 => &[][..],
            // SAFETY: it is not NULL, and the header requires the caller to give `length` bytes, less than
            // `isize::MAX`.
            _ => unsafe { slice::from_raw_parts(message, length) },
        };
        sender.0.send(bytes).map(|()| 0).map_err(said)
    })
}

/// Ends a session: see the header.
///
/// # Safety
/// `sender` is NULL or was connected and not closed, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_close(sender: *mut carillon_sender) -> c_int {
    guarded(STATUS_FAILED as c_int, || {
        // SAFETY: it was made by `Box::into_raw` in `carillon_connect`, and is used no more.
        let sender = unsafe { owned(sender) }.ok_or("there is no sender: NULL")?;
        let report = sender.0.close().map_err(said)?;
        match report.failure {
            Some(failure) => Err(failure),
            None => Ok((report.expected() - report.verified() as u64) as c_int),
        }
    })
}

/// Aborts a session: see the header.
///
/// # Safety
/// `sender` is NULL or was connected and not closed, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_abort(sender: *mut carillon_sender) {
    guarded((), || {
        // SAFETY: it was made by `Box::into_raw` in `carillon_connect`, and is used no more.
        drop(unsafe { owned(sender) });
        Ok(())
    });
}

/// Opens the sockets of a receiver: see the header.
///
/// # Safety
/// Strings are NULL or end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_listen(
    group: *const c_char,
    interface: *const c_char,
    name: *const c_char,
) -> *mut carillon_listener {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the caller gives strings as this function asks for them.
        let listener = unsafe { socket(group, interface, name) }?.listen().map_err(said)?;
        Ok(Box::into_raw(Box::new(carillon_listener(listener))))
    })
}

/// Joins the next session: see the header.
///
/// # Safety
/// `listener` is NULL or was made by `carillon_listen` and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_accept(listener: *mut carillon_listener) -> *mut carillon_session {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: it is NULL or made by `carillon_listen`, and used by this thread alone, as the header asks.
        let listener = unsafe { listener.as_mut() }.ok_or("there is no listener: NULL")?;
        let inbound = listener.0.accept().map_err(said)?;
        let from = line(inbound.sender());
        Ok(Box::into_raw(Box::new(carillon_session { inbound, next: None, from, descriptor: None })))
    })
}

/// Frees a listener: see the header.
///
/// # Safety
/// `listener` is NULL or was made by `carillon_listen`, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_listener_free(listener: *mut carillon_listener) {
    guarded((), || {
        // SAFETY: it was made by `Box::into_raw` in `carillon_listen`, and is used no more.
        drop(unsafe { owned(listener) });
        Ok(())
    });
}

/// Receives a message: see the header.
///
/// # Safety
/// `session` is NULL or was accepted and not freed; `buffer` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_recv(session: *mut carillon_session, buffer: *mut u8, size: usize) -> i64 {
    let next = |inbound: &mut Inbound| Ok(inbound.recv()?.map_or(Timed::End, Timed::Message));
    // SAFETY: as this function asks for it.
    unsafe { received(session, buffer, size, next) }
}

/// Receives a message within a time: see the header.
///
/// # Safety
/// `session` is NULL or was accepted and not freed; `buffer` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_recv_within(
    session: *mut carillon_session,
    buffer: *mut u8,
    size: usize,
    milliseconds: u32,
) -> i64 {
    let time = Duration::from_millis(milliseconds.into());
    // SAFETY: as this function asks for it.
    unsafe { received(session, buffer, size, |inbound| inbound.recv_timeout(time)) }
}

/// Copies the pending message, or what `next` returns.
///
/// # Safety
/// `session` is NULL or was accepted and not freed; `buffer` has room for `size` bytes.
unsafe fn received(
    session: *mut carillon_session,
    buffer: *mut u8,
    size: usize,
    next: impl FnOnce(&mut Inbound) -> Result<Timed, carillon_transfer::Error>,
) -> i64 {
    guarded(STATUS_FAILED, || {
        // SAFETY: it is NULL or made by `carillon_accept`, and used by this thread alone, as the header asks.
        let session = unsafe { session.as_mut() }.ok_or("there is no session: NULL")?;
        let message = match session.next.take() {
            Some(message) => message,
            None => match next(&mut session.inbound).map_err(said)? {
                Timed::Message(message) => message,
                Timed::Timeout => return Ok(STATUS_TIMEOUT),
                Timed::End => return Ok(STATUS_END),
            },
        };
        let length = message.bytes.len();
        if length > size || (buffer.is_null() && length > 0) {
            session.next = Some(message);
            return Ok(STATUS_TOO_LONG);
        }
        if session.from.as_bytes() != message.sender.as_bytes() {
            session.from = line(&message.sender);
        }
        if length > 0 {
            // SAFETY: the buffer is not NULL, has room for `size` bytes by the header's word, and is no part of the message.
            unsafe { std::ptr::copy_nonoverlapping(message.bytes.as_ptr(), buffer, length) };
        }
        Ok(length as i64)
    })
}

/// Returns a descriptor to poll: see the header.
///
/// # Safety
/// `session` is NULL or was accepted and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_descriptor(session: *mut carillon_session) -> c_int {
    guarded(STATUS_FAILED as c_int, || {
        // SAFETY: it is NULL or made by `carillon_accept`, and used by this thread alone, as the header asks.
        let session = unsafe { session.as_mut() }.ok_or("there is no session: NULL")?;
        let descriptor = match session.descriptor.take() {
            Some(descriptor) => descriptor,
            None => session.inbound.descriptor().map_err(said)?,
        };
        Ok(session.descriptor.insert(descriptor).as_raw_fd())
    })
}

/// Returns the length of the pending message: see the header.
///
/// # Safety
/// `session` is NULL or was accepted and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_next(session: *const carillon_session) -> usize {
    // SAFETY: it is NULL or made by `carillon_accept`.
    let session = unsafe { session.as_ref() };
    session.and_then(|session| session.next.as_ref()).map_or(0, |message| message.bytes.len())
}

/// Returns the sender of the last message: see the header.
///
/// # Safety
/// `session` is NULL or was accepted and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_from(session: *const carillon_session) -> *const c_char {
    // SAFETY: it is NULL or made by `carillon_accept`.
    unsafe { session.as_ref() }.map_or(c"".as_ptr(), |session| session.from.as_ptr())
}

/// Leaves and frees a session: see the header.
///
/// # Safety
/// `session` is NULL or was accepted, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_session_free(session: *mut carillon_session) {
    guarded((), || {
        // SAFETY: it was made by `Box::into_raw` in `carillon_accept`, and is used no more.
        drop(unsafe { owned(session) });
        Ok(())
    });
}

/// Returns the last error of this thread: see the header.
#[unsafe(no_mangle)]
pub extern "C" fn carillon_error() -> *const c_char {
    ERROR.with_borrow(|error| error.as_ptr())
}

/// Calls `act`. An error or a panic is stored for `carillon_error`, and `failed` is returned.
fn guarded<R>(failed: R, act: impl FnOnce() -> Result<R, String>) -> R {
    // What it was working at is not used again by a caller that has been told of the failure, but to be freed.
    let result =
        catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err("it panicked: a defect".to_owned()));
    result.unwrap_or_else(|error| {
        ERROR.with_borrow_mut(|last| *last = line(&error));
        failed
    })
}

/// Takes back ownership of an object that was passed to C.
///
/// # Safety
/// `given` is NULL or was made by `Box::into_raw`, and is not used afterwards.
unsafe fn owned<T>(given: *mut T) -> Option<Box<T>> {
    // SAFETY: it is not NULL, and was made so by this function's own condition.
    (!given.is_null()).then(|| unsafe { Box::from_raw(given) })
}

/// Reads a C string; `None` for NULL.
///
/// # Safety
/// The pointer is NULL or ends with 0, and the string does not change while the result is used.
unsafe fn text<'a>(string: *const c_char) -> Result<Option<&'a str>, String> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not NULL, and ends with 0 by this function's own condition.
    let string = unsafe { CStr::from_ptr(string) };
    string.to_str().map(Some).map_err(|_| "a string is not UTF-8".to_owned())
}

/// # Safety
/// Strings are NULL or end with 0.
unsafe fn socket(
    group: *const c_char,
    interface: *const c_char,
    name: *const c_char,
) -> Result<Socket, String> {
    // SAFETY: as this function asks for them.
    let (group, interface, name) = unsafe { (text(group)?, text(interface)?, text(name)?) };
    let group = group.ok_or("there is no group: NULL")?;
    let address = group
        .parse()
        .map_err(|_| format!("{group} is not an address with a port, such as 239.1.2.3:4567"))?;
    let mut socket = OPTIONS.with_borrow(|options| {
        options.iter().try_fold(bind(address), |socket, (key, value)| with(socket, key, value))
    })?;
    if let Some(interface) = interface {
        socket = socket.interface(interface);
    }
    if let Some(path) = &*DAEMON.lock().unwrap_or_else(PoisonError::into_inner) {
        socket = socket.through(path);
    }
    Ok(match name {
        Some(name) => socket.name(name),
        None => socket,
    })
}

/// Applies an option.
fn with(socket: Socket, key: &str, value: &str) -> Result<Socket, String> {
    match key {
        "key_file" => Ok(socket.key(Key::read(value).map_err(said)?.key)),
        // These are arguments of functions.
        "group" => Err("group is an argument, and no option".to_owned()),
        _ => socket.option(key, value).map_err(said),
    }
}

fn said(error: impl Display) -> String {
    error.to_string()
}

/// Converts text for C, without NUL bytes, which a C string cannot contain.
fn line(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}
