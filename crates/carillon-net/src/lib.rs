//! The UDP multicast driver.
