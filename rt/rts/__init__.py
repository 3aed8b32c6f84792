"""Parts of bench-rts: places, and the decision of meshsec-radio driven over the model of the air."""
