//! What a program without an operating system needs of the machine: a serial port, a clock, an end.

use core::arch::{asm, global_asm};
use core::fmt;

global_asm!(include_str!("boot.s"), options(att_syntax));

/// The first serial port of a PC, and its line status register, of which bit 5 says that it takes an octet.
const PORT: u16 = 0x3f8;
const STATUS: u16 = PORT + 5;
const READY: u8 = 0x20;
/// QEMU's isa-debug-exit.
const EXIT: u16 = 0xf4;

/// The serial port.
pub struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for octet in text.bytes() {
            while read(STATUS) & READY == 0 {}
            write(PORT, octet);
        }
        Ok(())
    }
}

fn read(port: u16) -> u8 {
    let octet;
    // SAFETY: reading these ports has no effect on memory.
    unsafe { asm!("in al, dx", in("dx") port, out("al") octet, options(nomem, nostack)) };
    octet
}

fn write(port: u16, octet: u8) {
    // SAFETY: writing these ports has no effect on memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") octet, options(nomem, nostack)) };
}

/// Returns the time stamp counter, after all instructions before have ended.
pub fn cycles() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: it only reads a counter.
    unsafe { asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Ends the machine with the status 2 * `code` + 1.
pub fn exit(code: u8) -> ! {
    write(EXIT, code);
    loop {
        // SAFETY: the machine waits for what never comes.
        unsafe { asm!("hlt", options(nomem, nostack)) };
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    let _ = fmt::Write::write_fmt(&mut Serial, format_args!("{info}\n"));
    exit(1)
}

/// The compiler calls these by name.
mod memory {
    use super::asm;

    #[no_mangle]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
        // SAFETY: the caller promises both areas; the direction flag is clear.
        unsafe {
            asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _)
        };
        to
    }

    #[no_mangle]
    unsafe extern "C" fn memset(to: *mut u8, octet: i32, count: usize) -> *mut u8 {
        // SAFETY: the caller promises the area; the direction flag is clear.
        unsafe {
            asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") octet as u8)
        };
        to
    }

    #[no_mangle]
    unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
        if (to as usize).wrapping_sub(from as usize) >= count {
            // SAFETY: nothing is overwritten before it has been read.
            return unsafe { memcpy(to, from, count) };
        }
        for at in (0..count).rev() {
            // SAFETY: the caller promises both areas, and the last octets come first.
            unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
        }
        to
    }

    #[no_mangle]
    unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
        for at in 0..count {
            // SAFETY: the caller promises both areas.
            let (one, other) =
                unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
            if one != other {
                return i32::from(one) - i32::from(other);
            }
        }
        0
    }
}
