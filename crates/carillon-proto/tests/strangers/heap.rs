//! What each machine holds of the heap: every block is put down to who asked for it, until it is freed.

#![allow(unsafe_code, reason = "an allocator that counts is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Whom what is asked for now is put down to; nobody is 0.
pub fn charge<T>(owner: usize, call: impl FnOnce() -> T) -> T {
    let before = OWNER.replace(owner);
    let result = call();
    OWNER.set(before);
    result
}

/// Bytes that an owner holds, in this thread.
pub fn held(owner: usize) -> usize {
    HELD.with(|held| held[owner].get()).max(0) as usize
}

/// Forgets what the owners hold.
pub fn reset() {
    HELD.with(|held| held.iter().for_each(|one| one.set(0)));
}

pub const OWNERS: usize = 8;

struct Counting;

// Each block has its owner's number before it.
// SAFETY: what the system's allocator gives is as large and as aligned as asked for, and a multiple of the
// alignment from its beginning on.
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
        // SAFETY: there are `before` bytes, at least eight of them, before what is given out.
        unsafe {
            block.cast::<usize>().write(owner);
            block.add(before)
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let (whole, before) = with_owner(layout);
        // SAFETY: it was given out by `alloc` for this layout.
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

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static OWNER: Cell<usize> = const { Cell::new(0) };
    static HELD: [Cell<isize>; OWNERS] = const { [const { Cell::new(0) }; OWNERS] };
}
