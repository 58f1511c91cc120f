//! Heap accounting: every block is charged to the owner that was active when it was allocated, until it is freed.
//!
//! A test program enables it with `#[global_allocator] static COUNTING: Counting = Counting;`. Each thread counts its
//! owners separately.

#![allow(unsafe_code, reason = "a counting allocator implements an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Number of owners; owner 0 is charged outside of [`charge`].
pub const OWNERS: usize = 64;

/// Charges the allocations of this call to an owner.
pub fn charge<T>(owner: usize, call: impl FnOnce() -> T) -> T {
    let before = OWNER.replace(owner);
    let result = call();
    OWNER.set(before);
    let held = held(owner);
    PEAK.with(|peak| peak[owner].set(peak[owner].get().max(held)));
    result
}

/// Bytes that an owner holds in this thread.
pub fn held(owner: usize) -> usize {
    HELD.with(|held| held[owner].get()).max(0) as usize
}

/// Maximum number of bytes that an owner held after any call [charged](charge) to it, in this thread.
pub fn peak(owner: usize) -> usize {
    PEAK.with(|peak| peak[owner].get())
}

/// Resets the current and maximum bytes of all owners.
pub fn reset() {
    HELD.with(|held| held.iter().for_each(|one| one.set(0)));
    PEAK.with(|peak| peak.iter().for_each(|one| one.set(0)));
}

/// Returns true if this program counts its heap.
pub fn is_counting() -> bool {
    let before = HELD.with(|held| held[OWNERS - 1].get());
    let block = charge(OWNERS - 1, || std::hint::black_box(Box::new([0_u8; 64])));
    let counted = HELD.with(|held| held[OWNERS - 1].get()) > before;
    drop(block);
    counted
}

/// System allocator with accounting.
#[derive(Debug)]
pub struct Counting;

// The number of the owner stands before each block. SAFETY: the block of the system allocator has the requested size
// and alignment, and the returned block begins a multiple of the alignment behind its start.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (whole, before) = with_owner(layout);
        // SAFETY: the layout is not empty.
        let block = unsafe { System.alloc(whole) };
        if block.is_null() {
            return block;
        }
        let owner = OWNER.get();
        add(owner, layout.size() as isize);
        // SAFETY: there are `before` bytes, at least eight, before the returned block.
        unsafe {
            block.cast::<usize>().write(owner);
            block.add(before)
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let (whole, before) = with_owner(layout);
        // SAFETY: `alloc` returned it for this layout.
        unsafe {
            let block = block.sub(before);
            add(block.cast::<usize>().read(), -(layout.size() as isize));
            System.dealloc(block, whole);
        }
    }
}

fn with_owner(layout: Layout) -> (Layout, usize) {
    let before = layout.align().max(size_of::<usize>());
    let whole = Layout::from_size_align(layout.size() + before, before).expect("no block is that large");
    (whole, before)
}

fn add(owner: usize, bytes: isize) {
    HELD.with(|held| held[owner].set(held[owner].get() + bytes));
}

thread_local! {
    static OWNER: Cell<usize> = const { Cell::new(0) };
    static PEAK: [Cell<usize>; OWNERS] = const { [const { Cell::new(0) }; OWNERS] };
    static HELD: [Cell<isize>; OWNERS] = const { [const { Cell::new(0) }; OWNERS] };
}
