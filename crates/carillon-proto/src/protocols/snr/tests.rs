//! Rules of the sources, one each.
