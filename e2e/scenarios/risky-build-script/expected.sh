rm build.rs
