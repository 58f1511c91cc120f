//! Files for programs in C: transfers that block, and their reports.

use std::ffi::{CString, c_char, c_int};

use carillon_transfer::{ReceiveReport, ReceiverReport, SendReport};

use crate::{guarded, line, owned, said, socket, text};

/// A report of a transfer: see the header.
#[derive(Debug)]
#[allow(non_camel_case_types)]
pub struct carillon_report {
    complete: bool,
    bytes: u64,
    reason: CString,
    rows: Vec<Row>,
}

/// Result at one receiver, or from one sender.
#[derive(Debug)]
struct Row {
    name: CString,
    result: CString,
    reason: CString,
}

impl From<&ReceiverReport> for Row {
    fn from(report: &ReceiverReport) -> Self {
        let reason = report.outcome.reason().unwrap_or_default();
        Row { name: line(&report.name), result: line(report.outcome.name()), reason: line(reason) }
    }
}

impl From<SendReport> for carillon_report {
    fn from(report: SendReport) -> Self {
        carillon_report {
            complete: report.is_success(),
            bytes: report.bytes,
            reason: line(report.failure.as_deref().unwrap_or_default()),
            rows: report.receivers.iter().map(Row::from).collect(),
        }
    }
}

impl From<ReceiveReport> for carillon_report {
    fn from(report: ReceiveReport) -> Self {
        let reason = report.outcome.as_ref().err().map(String::as_str).unwrap_or_default();
        let row = |sender: &String| Row {
            name: line(sender),
            result: line(if report.is_success() { "verified" } else { "failed" }),
            reason: line(reason),
        };
        carillon_report {
            complete: report.is_success(),
            bytes: report.bytes,
            reason: line(reason),
            rows: report.sender.iter().map(row).collect(),
        }
    }
}

/// Sends files: see the header.
///
/// # Safety
/// Strings are NULL or end with 0; `paths` has `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_send_files(
    group: *const c_char,
    interface: *const c_char,
    name: *const c_char,
    paths: *const *const c_char,
    count: usize,
) -> *mut carillon_report {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the caller gives strings as this function asks for them.
        let socket = unsafe { socket(group, interface, name)? };
        if paths.is_null() || count == 0 {
            return Err("there are no paths".to_owned());
        }
        // SAFETY: it is not NULL, and has `count` strings.
        let paths = unsafe { std::slice::from_raw_parts(paths, count) };
        // SAFETY: each is NULL or ends with 0.
        let paths = paths.iter().map(|&path| unsafe { text(path) });
        let paths: Option<Vec<&str>> = paths.collect::<Result<_, _>>()?;
        let report = socket.send(paths.ok_or("a path is NULL")?).run().map_err(said)?;
        Ok(Box::into_raw(Box::new(report.into())))
    })
}

/// Receives files: see the header.
///
/// # Safety
/// Strings are NULL or end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_receive_files(
    group: *const c_char,
    interface: *const c_char,
    name: *const c_char,
    directory: *const c_char,
) -> *mut carillon_report {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the caller gives strings as this function asks for them.
        let (socket, directory) = unsafe { (socket(group, interface, name)?, text(directory)?) };
        let directory = directory.ok_or("there is no directory: NULL")?;
        let report = socket.receive(directory).run().map_err(said)?;
        Ok(Box::into_raw(Box::new(report.into())))
    })
}

/// Returns 1 if everything arrived everywhere: see the header.
///
/// # Safety
/// `report` is NULL or was returned and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_report_complete(report: *const carillon_report) -> c_int {
    // SAFETY: it is NULL or made by this library.
    unsafe { report.as_ref() }.is_some_and(|report| report.complete).into()
}

/// Returns the bytes of all files: see the header.
///
/// # Safety
/// `report` is NULL or was returned and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_report_bytes(report: *const carillon_report) -> u64 {
    // SAFETY: it is NULL or made by this library.
    unsafe { report.as_ref() }.map_or(0, |report| report.bytes)
}

/// Returns the number of rows: see the header.
///
/// # Safety
/// `report` is NULL or was returned and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_report_rows(report: *const carillon_report) -> usize {
    // SAFETY: it is NULL or made by this library.
    unsafe { report.as_ref() }.map_or(0, |report| report.rows.len())
}

/// Returns the name of a row: see the header.
///
/// # Safety
/// `report` is NULL or was returned and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_report_name(report: *const carillon_report, row: usize) -> *const c_char {
    // SAFETY: as this function asks for it.
    unsafe { of_row(report, row, |row| &row.name) }
}

/// Returns the result of a row: see the header.
///
/// # Safety
/// `report` is NULL or was returned and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_report_result(report: *const carillon_report, row: usize) -> *const c_char {
    // SAFETY: as this function asks for it.
    unsafe { of_row(report, row, |row| &row.result) }
}

/// Returns the reason of a row: see the header.
///
/// # Safety
/// `report` is NULL or was returned and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_report_reason(report: *const carillon_report, row: usize) -> *const c_char {
    // SAFETY: as this function asks for it.
    unsafe { of_row(report, row, |row| &row.reason) }
}

/// Returns the reason why the whole transfer failed: see the header.
///
/// # Safety
/// `report` is NULL or was returned and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_report_failure(report: *const carillon_report) -> *const c_char {
    // SAFETY: it is NULL or made by this library.
    unsafe { report.as_ref() }.map_or(c"".as_ptr(), |report| report.reason.as_ptr())
}

/// Frees a report: see the header.
///
/// # Safety
/// `report` is NULL or was returned, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn carillon_report_free(report: *mut carillon_report) {
    guarded((), || {
        // SAFETY: it was made by `Box::into_raw` in this file, and is used no more.
        drop(unsafe { owned(report) });
        Ok(())
    });
}

/// Returns a text of a row; an empty one if there is no such row.
///
/// # Safety
/// `report` is NULL or was returned and not freed.
unsafe fn of_row(
    report: *const carillon_report,
    row: usize,
    get: impl Fn(&Row) -> &CString,
) -> *const c_char {
    // SAFETY: it is NULL or made by this library.
    let row = unsafe { report.as_ref() }.and_then(|report| report.rows.get(row));
    row.map_or(c"".as_ptr(), |row| get(row).as_ptr())
}
