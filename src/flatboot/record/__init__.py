"""What a boot leaves: records and where they are kept, marks, phases, what the parts cost."""
