// SPDX-License-Identifier: Apache-2.0
// Lies in site-packages/tensorflow-plugins, from where `import tensorflow` opens every library, and
// opens the plugin that was built for this TensorFlow. Uses no symbol of TensorFlow, so that it
// loads with any, and does nothing at all unless a variable asks for Spillway: a plugin of another
// minor would be undefined symbols and structs of another size.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Off is what TensorFlow is without us, its own optimizers too.
bool is_asked_for() {
  const char* const mode = std::getenv("SPILLWAY_MODE");
  if (mode != nullptr && std::strcmp(mode, "off") == 0) return false;
  return is_set("SPILLWAY_BUDGET") || is_set("SPILLWAY_MODE");
}

std::string folder_of_this() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&is_set), &info) == 0) return {};
  std::string path(info.dli_fname);
  for (int i = 0; i < 2; ++i)
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  return path;
}

// 2.21 of 2.21.0.
std::string minor_of(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

void refuse(const std::string& why) {
  std::fprintf(stderr, "spillway: TensorFlow is not managed: %s\n", why.c_str());
}

// Only TensorFlow's Python shows what cannot be managed. Uses no symbol of Python either, as
// a program may have none. The linker's lock is held, so the interpreter's is not waited for: who
// imports TensorFlow holds it.
void watch_python() {
  const auto find = [](const char* name) { return ::dlsym(RTLD_DEFAULT, name); };
  const auto initialized = reinterpret_cast<int (*)()>(find("Py_IsInitialized"));
  const auto locked = reinterpret_cast<int (*)()>(find("PyGILState_Check"));
  const auto import = reinterpret_cast<void* (*)(const char*)>(find("PyImport_ImportModule"));
  const auto call = reinterpret_cast<void* (*)(void*, const char*, const char*, ...)>(
      find("PyObject_CallMethod"));
  const auto show_error = reinterpret_cast<void (*)()>(find("PyErr_Print"));
  if (initialized == nullptr || locked == nullptr || import == nullptr || call == nullptr ||
      show_error == nullptr || initialized() == 0 || locked() == 0) {
    return;
  }
  void* const module = import("spillway._unmanaged");
  if (module == nullptr || call(module, "watch", nullptr) == nullptr) show_error();
}

void open_plugin() {
  if (!is_asked_for()) return;
  void* const library = ::dlopen("libtensorflow_cc.so.2", RTLD_NOLOAD | RTLD_NOW);
  if (library == nullptr) return refuse("it has no libtensorflow_cc.so.2");
  const auto version = reinterpret_cast<const char* (*)()>(::dlsym(library, "TF_Version"));
  const auto load = reinterpret_cast<void* (*)(const char*, void*)>(
      ::dlsym(library, "TF_LoadPluggableDeviceLibrary"));
  const auto new_status = reinterpret_cast<void* (*)()>(::dlsym(library, "TF_NewStatus"));
  const auto message = reinterpret_cast<const char* (*)(void*)>(::dlsym(library, "TF_Message"));
  if (version == nullptr || load == nullptr || new_status == nullptr || message == nullptr) {
    return refuse("it has no interface for plugins");
  }
  const std::string plugin =
      folder_of_this() + "/spillway/lib/libspillway_tensorflow-" + minor_of(version()) + ".so";
  if (std::FILE* const file = std::fopen(plugin.c_str(), "rb")) {
    std::fclose(file);
  } else {
    return refuse("this is TensorFlow " + std::string(version()) + ", and there is no " + plugin +
                  ". Install Spillway again where this TensorFlow is.");
  }
  void* const status = new_status();
  if (load(plugin.c_str(), status) == nullptr) return refuse(message(status));
  watch_python();
}

[[maybe_unused]] const bool kOpened = [] {
  open_plugin();
  return true;
}();

}  // namespace
