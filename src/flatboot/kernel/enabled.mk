# Prints what the Kbuild file of a folder builds with the config in the current object folder: objects, those that
# a composite one is made of, and folders below. Kbuild's own rules find them; they are not made.
include $(srctree)/scripts/Makefile.build

.PHONY: enabled
enabled:
	@echo $(filter-out %/built-in.a,$(real-obj-y)) $(real-obj-m) $(lib-y) $(always-y) $(subdir-ym)
