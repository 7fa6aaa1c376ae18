//! Where a statically linked whatif begins: one system call before the C library does anything.
//!
//! A position-independent program relocates its own constants when it starts, and every page of them that it writes to is a
//! page fault: some sixty of them, which is a large part of what starting a small command costs. Asked for all at once, the
//! pages take one call. A kernel too old for it (before 5.14) refuses, and they come one by one as before.
//!
//! `cli/build.rs` makes this the entry point where it links statically.

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl whatif_entry",
    ".hidden whatif_entry",
    ".type whatif_entry, @function",
    "whatif_entry:",
    // What the kernel hands over in rdx is for `_start`.
    "mov r8, rdx",
    // What the linker has filled and relocation writes to; the rest comes when it is needed.
    "lea rdi, [rip + __init_array_start]",
    "and rdi, -4096",
    "lea rsi, [rip + _edata]",
    "sub rsi, rdi",
    "mov edx, {populate_write}",
    "mov eax, {madvise}",
    "syscall",
    "mov rdx, r8",
    "jmp _start",
    ".size whatif_entry, . - whatif_entry",
    populate_write = const libc::MADV_POPULATE_WRITE,
    madvise = const libc::SYS_madvise,
);
