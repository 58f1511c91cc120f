//! The event queue of the kernel, keyed by (time, serial).
