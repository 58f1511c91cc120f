//! C interface of the module: memory for requests, and calls.
//!
//! The only file of this crate with `unsafe`: pointers come from the page. A function trusts that they were returned by
//! this module and have the given length, and nothing else.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::slice;

use crate::{Operation, call};

/// Bytes before the bytes of an answer: status and length, each 32 bits, little-endian.
const ANSWER_HEADER_BYTES: usize = 8;

/// Allocates memory for a request. Returns null if there is none, or if `len` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn carillon_alloc(len: usize) -> *mut u8 {
    match layout(len) {
        // SAFETY: the layout has a size.
        Some(layout) => unsafe { alloc(layout) },
        None => std::ptr::null_mut(),
    }
}

/// Releases the memory of a request or an answer.
///
/// # Safety
/// `ptr` is null, or was returned by this module for `len` bytes and has not been released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_free(ptr: *mut u8, len: usize) {
    if let (false, Some(layout)) = (ptr.is_null(), layout(len)) {
        // SAFETY: the caller passes what `carillon_alloc` returned for this length.
        unsafe { dealloc(ptr, layout) };
    }
}

/// Carries out an operation. The answer is a status (0 for success), the length of the bytes that follow, and these
/// bytes; with status 1 they are the error. Null if there is no memory for it. The caller releases the answer.
///
/// # Safety
/// `ptr` is null, or leads to `len` bytes that nothing changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_call(operation: u32, ptr: *const u8, len: usize) -> *mut u8 {
    let request = match ptr.is_null() {
        true => &[],
        // SAFETY: the caller passes a request of this length.
        false => unsafe { slice::from_raw_parts(ptr, len) },
    };
    let answer = Operation::of(operation).and_then(|operation| call(operation, request));
    let (status, bytes) = match answer {
        Ok(bytes) => (0_u32, bytes),
        Err(error) => (1, error.to_string().into_bytes()),
    };
    let Ok(length) = u32::try_from(bytes.len()) else { return std::ptr::null_mut() };
    let answer = carillon_alloc(ANSWER_HEADER_BYTES + bytes.len());
    if !answer.is_null() {
        // SAFETY: the memory was allocated for the header and these bytes.
        let whole = unsafe { slice::from_raw_parts_mut(answer, ANSWER_HEADER_BYTES + bytes.len()) };
        whole[..4].copy_from_slice(&status.to_le_bytes());
        whole[4..8].copy_from_slice(&length.to_le_bytes());
        whole[8..].copy_from_slice(&bytes);
    }
    answer
}

/// Layout of memory of this size; `None` without a size, or if it exceeds the address space.
fn layout(len: usize) -> Option<Layout> {
    Layout::array::<u8>(len).ok().filter(|layout| layout.size() > 0)
}
