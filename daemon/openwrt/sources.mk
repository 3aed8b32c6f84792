# What both packages share: the feed is this checkout, whose workspace is compiled by OpenWrt's own Rust.

WORKSPACE:=$(realpath $(CURDIR))/../..

PKG_VERSION:=$(shell sed -n 's/^version = "\(.*\)"/\1/p' $(WORKSPACE)/Cargo.toml | head -n 1)
PKG_RELEASE:=1
PKG_LICENSE:=Apache-2.0
PKG_BUILD_DEPENDS:=rust/host
PKG_BUILD_PARALLEL:=1

include $(INCLUDE_DIR)/package.mk
include $(TOPDIR)/feeds/packages/lang/rust/rust-package.mk

define Build/Prepare
	$(INSTALL_DIR) $(PKG_BUILD_DIR)
	$(CP) $(WORKSPACE)/Cargo.toml $(WORKSPACE)/Cargo.lock $(WORKSPACE)/crates $(PKG_BUILD_DIR)/
endef

# The program, its service, and what its service may do; a configuration is given by who has one.
define Package/service
	$(INSTALL_DIR) $(1)/usr/sbin $(1)/etc/init.d $(1)/etc/capabilities
	$(INSTALL_BIN) $(PKG_INSTALL_DIR)/bin/$(PKG_NAME) $(1)/usr/sbin/
	$(INSTALL_BIN) ./files/$(PKG_NAME).init $(1)/etc/init.d/$(PKG_NAME)
	$(INSTALL_DATA) ./files/$(PKG_NAME).json $(1)/etc/capabilities/
endef
