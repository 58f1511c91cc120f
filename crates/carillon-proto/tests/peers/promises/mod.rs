//! What each protocol promises.
