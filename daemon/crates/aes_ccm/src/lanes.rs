//! The chain of CBC-MAC and the counters, enciphered side by side.
//!
//! A step of the chain waits until the next block is there, or until key stream is needed. In the second case it is
//! enciphered in lane 0 of one parallel call, and the next counters in the other lanes. So the chain costs no call of its
//! own there: without AES instructions, a call for one block takes as long as one for all lanes. The first such call
//! enciphers B_0, A_0 and the first counters, which is most of the work for a short message.

use aes::cipher::consts::U16;
use aes::cipher::{BlockBackend, BlockClosure, BlockSizeUser, ParBlocks, Unsigned};
use zeroize::optimization_barrier;

use crate::formatting::{associated_block, BLOCK};

/// Lanes from which on the chain goes alone through long content. Only AES instructions have so many, and a processor that
/// has them computes counters while it waits for the chain: 5 % less time for 1000 octets on Zen.
const WIDE: usize = 8;

/// A block of AES.
pub(crate) type Block = aes::Block;

/// What happens to the content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Seal,
    Open,
}

/// A message that is to be enciphered or deciphered, with a place for its whole tag.
pub(crate) struct Message<'a> {
    /// B_0.
    pub(crate) first: u128,
    /// A_0.
    pub(crate) counter: u128,
    pub(crate) associated: &'a [u8],
    pub(crate) content: &'a mut [u8],
    pub(crate) direction: Direction,
    pub(crate) tag: &'a mut Block,
}

impl BlockSizeUser for Message<'_> {
    type BlockSize = U16;
}

impl BlockClosure for Message<'_> {
    // Only inlined code is compiled with the AES instructions that the caller of this function has found.
    #[inline(always)]
    fn call<B: BlockBackend<BlockSize = U16>>(self, backend: &mut B) {
        let mut lanes = Lanes::new(backend, self.first, self.counter);
        let mask = lanes.key_stream();
        if !self.associated.is_empty() {
            lanes.absorb_associated(self.associated);
        }
        match self.direction {
            Direction::Seal => lanes.content(self.content, |_, before| before),
            Direction::Open => lanes.content(self.content, |after, _| after),
        }
        *self.tag = xor(lanes.finish(), mask);
    }
}

/// The state of both halves. Blocks stay octets, which the compiler keeps in vector registers: as numbers they would pass
/// through others at each step of the chain.
struct Lanes<'b, B: BlockBackend<BlockSize = U16>> {
    backend: &'b mut B,
    blocks: ParBlocks<B>,
    /// The lane whose key stream is next.
    next: usize,
    counter: u128,
    /// The chain's block, not yet enciphered if `waits`.
    chain: Block,
    waits: bool,
}

impl<'b, B: BlockBackend<BlockSize = U16>> Lanes<'b, B> {
    const COUNT: usize = B::ParBlocksSize::USIZE;

    #[inline(always)]
    fn new(backend: &'b mut B, first: u128, counter: u128) -> Self {
        const { assert!(B::ParBlocksSize::USIZE > 1, "the chain takes one lane") };
        Self {
            backend,
            blocks: ParBlocks::<B>::default(),
            next: Self::COUNT,
            counter,
            chain: first.to_be_bytes().into(),
            waits: true,
        }
    }

    /// Returns the next block of key stream, S_0 first.
    #[inline(always)]
    fn key_stream(&mut self) -> Block {
        if self.next >= Self::COUNT {
            self.encipher_lanes();
        }
        let block = self.blocks[self.next];
        self.next += 1;
        block
    }

    #[inline(always)]
    fn encipher_lanes(&mut self) {
        self.blocks[0] = self.chain;
        for lane in 1..Self::COUNT {
            self.blocks[lane] = self.counter.to_be_bytes().into();
            // The longest content and a call's lanes have fewer blocks than the counter has values.
            self.counter = self.counter.wrapping_add(1);
        }
        self.backend.proc_par_blocks_inplace(&mut self.blocks);
        if self.waits {
            self.chain = self.blocks[0];
            self.waits = false;
        }
        self.next = 1;
    }

    #[inline(always)]
    fn settle(&mut self) {
        if self.waits {
            self.backend.proc_block_inplace(&mut self.chain);
            self.waits = false;
        }
    }

    /// Adds a block to the chain.
    #[inline(always)]
    fn absorb(&mut self, block: Block) {
        self.settle();
        self.chain = xor(self.chain, block);
        self.waits = true;
    }

    #[inline(always)]
    fn absorb_associated(&mut self, associated: &[u8]) {
        let (first, taken) = associated_block(associated);
        self.absorb(first.into());
        let mut blocks = associated[taken..].chunks_exact(BLOCK);
        for block in &mut blocks {
            self.absorb(*Block::from_slice(block));
        }
        let rest = blocks.remainder();
        if !rest.is_empty() {
            self.absorb(padded(rest));
        }
    }

    /// Enciphers or deciphers content in place. `plain` chooses, of a block after and before, the one that is plaintext.
    #[inline(always)]
    fn content(&mut self, content: &mut [u8], plain: impl Fn(Block, Block) -> Block) {
        let mut rest = content;
        while rest.len() >= BLOCK {
            let count = self.ready().min(rest.len() / BLOCK);
            let (group, others) = rest.split_at_mut(count * BLOCK);
            self.group(group, &plain);
            rest = others;
        }
        if !rest.is_empty() {
            let before = padded(rest);
            let after = xor(before, self.key_stream());
            rest.copy_from_slice(&after[..rest.len()]);
            self.absorb(plain(padded(rest), before));
        }
    }

    /// Lets nothing wait, and returns how many blocks of key stream are ready: one or more.
    #[inline(always)]
    fn ready(&mut self) -> usize {
        if Self::COUNT >= WIDE {
            self.settle();
        }
        if self.next >= Self::COUNT {
            self.encipher_lanes();
        }
        self.settle();
        Self::COUNT - self.next
    }

    /// Enciphers or deciphers as many whole blocks as there is key stream for. This is where the time goes, so the chain
    /// is in a register here.
    #[inline(always)]
    fn group(&mut self, group: &mut [u8], plain: impl Fn(Block, Block) -> Block) {
        let mut chain = self.chain;
        let keys = &self.blocks[self.next..];
        for (number, (block, key)) in group.chunks_exact_mut(BLOCK).zip(keys).enumerate() {
            if number > 0 {
                self.backend.proc_block_inplace(&mut chain);
            }
            let before = *Block::from_slice(block);
            let after = xor(before, *key);
            block.copy_from_slice(&after);
            chain = xor(chain, plain(after, before));
        }
        self.chain = chain;
        self.waits = true;
        self.next += group.len() / BLOCK;
    }

    /// Returns the end of the chain, and overwrites the key stream.
    #[inline(always)]
    fn finish(mut self) -> Block {
        self.settle();
        let chain = self.chain;
        self.chain = Block::default();
        self.blocks = ParBlocks::<B>::default();
        optimization_barrier(&self.blocks);
        optimization_barrier(&self.chain);
        chain
    }
}

#[inline(always)]
fn xor(one: Block, other: Block) -> Block {
    let mut result = one;
    for (octet, with) in result.iter_mut().zip(other) {
        *octet ^= with;
    }
    result
}

/// Returns less than a block with zeros after it.
#[inline(always)]
fn padded(rest: &[u8]) -> Block {
    let mut block = Block::default();
    block[..rest.len()].copy_from_slice(rest);
    block
}

#[cfg(test)]
mod tests {
    use aes::cipher::consts::{U2, U3, U5, U9};
    use aes::cipher::generic_array::ArrayLength;
    use aes::cipher::inout::InOut;
    use aes::cipher::{BlockEncrypt, KeyInit, ParBlocksSizeUser};
    use aes::Aes128Enc;
    use core::marker::PhantomData;

    use super::*;

    /// AES with another number of lanes, as processors without AES instructions have.
    struct Other<'a, P>(&'a Aes128Enc, PhantomData<P>);

    impl<P> BlockSizeUser for Other<'_, P> {
        type BlockSize = U16;
    }

    impl<P: ArrayLength<Block>> ParBlocksSizeUser for Other<'_, P> {
        type ParBlocksSize = P;
    }

    impl<P: ArrayLength<Block>> BlockBackend for Other<'_, P> {
        fn proc_block(&mut self, block: InOut<'_, '_, Block>) {
            self.0.encrypt_block_inout(block);
        }
    }

    const MOST: usize = 200;

    fn message<'a>(content: &'a mut [u8], associated: &'a [u8], tag: &'a mut Block) -> Message<'a> {
        Message {
            first: 0x59 << 120,
            counter: 1 << 120,
            associated,
            content,
            direction: Direction::Seal,
            tag,
        }
    }

    fn with_lanes<P: ArrayLength<Block>>() {
        let cipher = Aes128Enc::new(&[7; 16].into());
        for length in 0..MOST {
            let (mut first, mut second) = ([3; MOST], [3; MOST]);
            let mut tags = [Block::default(); 2];
            let associated = [5; MOST];
            let associated = &associated[..MOST - length];
            cipher.encrypt_with_backend(message(&mut first[..length], associated, &mut tags[0]));
            message(&mut second[..length], associated, &mut tags[1])
                .call(&mut Other(&cipher, PhantomData::<P>));
            assert_eq!((first, tags[0]), (second, tags[1]), "{length} octets");
        }
    }

    #[test]
    fn the_number_of_lanes_makes_no_difference() {
        with_lanes::<U2>();
        with_lanes::<U3>();
        with_lanes::<U5>();
        with_lanes::<U9>();
    }
}
