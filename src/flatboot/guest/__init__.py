"""From an image to a record: machines, QEMU, the first files, one boot carried out."""
