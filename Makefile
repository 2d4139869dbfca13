# Short names for the CMake build; everything real is in CMakeLists.txt and tools/.
BUILD ?= build
GENERATOR ?= Ninja

.PHONY: all setup demo test bench dist format lint clean
all: $(BUILD)/build.ninja
	cmake --build $(BUILD)
$(BUILD)/build.ninja:
	cmake -S . -B $(BUILD) -G $(GENERATOR)
setup:
	tools/setup.sh
test: setup all
	ctest --test-dir $(BUILD) --output-on-failure
clean:
	rm -rf $(BUILD) dist
