//! Lines, hunks, three-way merges and patches. Pure: bytes in, bytes out.
#![forbid(unsafe_code)]
