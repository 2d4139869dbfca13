# Short names for the CMake build; everything real is in CMakeLists.txt and tools/.
BUILD ?= build
SANITIZE ?=
CC ?= cc
# Other builds (clang, sanitizers) take the device code that the first build has compiled.
ARCHIVE = $(if $(filter-out build,$(BUILD)),$(if $(wildcard build/kernels.bin),-DONELOOK_KERNEL_ARCHIVE=$(CURDIR)/build/kernels.bin))
CONFIGURE = cmake -S . -B $(BUILD) -G Ninja -DCMAKE_C_COMPILER=$(CC) -DONELOOK_SANITIZE=$(SANITIZE) $(ARCHIVE)

.PHONY: all setup demo test test-amd test-amd-ci test-gpu bench dist format lint clean tsan-tests
all: $(BUILD)/build.ninja
	cmake --build $(BUILD)
$(BUILD)/build.ninja:
	tools/setup.sh
	$(CONFIGURE)
setup:
	tools/setup.sh
# Trains YOLO26n on a small drawn data set until it detects; about three minutes on two cores.
demo: setup all
	tools/demo.sh $(BUILD)
test: setup all
	ctest --test-dir $(BUILD) --output-on-failure -j2
# AMD code without an AMD card, in the interpreter of tools/amd: every target and type of maps, or what CI runs.
test-amd: all
	ctest --test-dir $(BUILD) -C amd -L '^amd$$' --output-on-failure -j2
test-amd-ci: all
	ctest --test-dir $(BUILD) -C amd -L amd-ci --output-on-failure -j2
# The tests of ops, gradients, loss, models and training on the GPU of this machine.
test-gpu: all
	tools/test_gpu.sh $(BUILD)
# Ratios against what a user would run instead; ONELOOK_REFERENCE_PYTHON names a Python that has it.
bench: all
	bench/run.sh $(BUILD)
dist: all
	tools/dist.sh $(BUILD)
tsan-tests: $(BUILD)/build.ninja
	cmake --build $(BUILD) --target tsan_tests
format:
	find src include tests examples bench fuzz -name '*.[ch]' -not -path '*/golden/*' -not -path 'src/kernels/*' | xargs clang-format -i
	for f in src/kernels/*.[ch]; do clang-format --assume-filename=$${f%.*}.cpp <$$f >$$f.new && mv $$f.new $$f; done
lint: all
	tools/lint.sh $(BUILD)
clean:
	rm -rf build build-* dist
