# PVH boot protocol: the machine starts here in 32-bit mode without paging. QEMU finds the address in the note.
    .section .note.pvh, "a", @note
    .align 4
    .long 4, 4, 18              # lengths of name and address; XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long start

    .section .boot, "awx"
    .code32
    .globl start
start:
    cli
    mov $stack_top, %esp
    # The first GiB is where it is, in pages of 2 MiB: present, writable.
    mov $pages_3, %eax
    or $0x3, %eax
    mov %eax, pages_4
    mov $pages_2, %eax
    or $0x3, %eax
    mov %eax, pages_3
    xor %ecx, %ecx
1:  mov %ecx, %eax
    shl $21, %eax
    or $0x83, %eax
    mov %eax, pages_2(, %ecx, 8)
    inc %ecx
    cmp $512, %ecx
    jne 1b
    mov $pages_4, %eax
    mov %eax, %cr3
    # CR4: PAE, and vector registers (OSFXSR, OSXMMEXCPT).
    mov %cr4, %eax
    or $0x620, %eax
    mov %eax, %cr4
    # EFER: long mode.
    mov $0xc0000080, %ecx
    rdmsr
    or $0x100, %eax
    wrmsr
    # CR0: paging, and the coprocessor is there (MP without EM).
    mov %cr0, %eax
    and $0xfffffffb, %eax
    or $0x80000002, %eax
    mov %eax, %cr0
    lgdt table
    ljmp $8, $long

    .code64
long:
    xor %eax, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov $stack_top, %rsp
    xor %ebp, %ebp
    call main
2:  hlt
    jmp 2b

    .align 8
segments:
    .quad 0
    .quad 0x00af9b000000ffff    # code, 64 bits
segments_end:
table:
    .word segments_end - segments - 1
    .long segments

    .section .bss.boot, "aw", @nobits
    .align 4096
pages_4: .skip 4096
pages_3: .skip 4096
pages_2: .skip 4096
    .skip 65536
stack_top:
