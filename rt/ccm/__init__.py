"""Parts of bench-ccm: the programs that measure, the kernel's AES-CCM, the dissertation's figures, and the plot."""
